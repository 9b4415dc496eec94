"""Install what the tests need and pip can't bring: Tesseract with Korean, fonts, a voice, a browser.

Run before the tests; where all is there it does nothing. On Debian and Ubuntu it installs, as root or by sudo;
elsewhere it says what to install. The tests fail, they don't skip, where an engine is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FONTS, SOUNDS = Path("/usr/share/fonts"), Path("/usr/share/asterisk/sounds")
PACKAGES = {  # Debian's name -> whether it is there
    "chromium": lambda: shutil.which("chromium") or shutil.which("google-chrome"),
    "tesseract-ocr": lambda: shutil.which("tesseract"),
    "tesseract-ocr-kor": lambda: "kor" in _languages(),
    "fonts-nanum": lambda: any(FONTS.rglob("NanumGothic.ttf")),
    "fonts-noto-cjk": lambda: any(FONTS.rglob("NotoSansCJK-Regular.ttc")),
    "espeak-ng": lambda: shutil.which("espeak-ng"),
    "asterisk-core-sounds-en-wav": lambda: any(SOUNDS.rglob("*.wav")),
}


def _languages() -> list[str]:
    command = ["tesseract", "--list-langs"]
    return subprocess.run(command, capture_output=True, text=True).stdout.split() if shutil.which(command[0]) else []


def main() -> int:
    missing = [name for name, is_there in PACKAGES.items() if not is_there()]
    if not missing:
        return 0
    if not shutil.which("apt-get"):
        print(f"The tests need these Debian packages, or the like of your system: {' '.join(missing)}", file=sys.stderr)
        return 1
    print(f"Installing {' '.join(missing)}", file=sys.stderr)
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    quiet = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    subprocess.run([*sudo, *quiet, "update"], check=True, stdout=subprocess.DEVNULL)
    install = [*sudo, *quiet, "install", "-y", "--no-install-recommends", *missing]
    return subprocess.run(install, stdout=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main())
