r"""Turn the equations of documents into LaTeX: OMML, as .docx has it, and the script of Hangul's equation editor.

    <m:f><m:num>…a+b…</m:num><m:den>…2…</m:den></m:f>   ->   \frac{a+b}{2}
    {a+b} over 2 = sum _{k=1} ^{n} root 3 of x_k         ->   \frac{a+b}{2}=\sum_{k=1}^{n}\sqrt[3]{x_{k}}

The result is one line whose braces and square brackets are balanced (a lone `[` becomes `\lbrack`), so that `[math: …]`
has an end. What isn't known degrades to its own text. Work is linear in the input: what is nested deeper than MAX_DEPTH
or longer than MAX_CHARS becomes plain text. Hancom's words are those of its published description of the script
(revision 1.3); how words stand next to each other follows what the editor shows, of which the description says little.
It does not lay out: sizes, colours, spacing and the side on which limits stand are dropped.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import groupby, islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lxml.etree import _Element

MAX_DEPTH = 40  # fractions in fractions, and so on
MAX_CHARS = 20_000  # of one equation

# --- tables ---


def _command(name: str) -> str:
    return f"\\{name}" if name[:1].isalpha() else name


def _characters(table: str) -> dict[str, str]:
    r"""Read `"×times ÷div"` as `{"×": "\times", "÷": "\div"}`."""
    return {entry[0]: _command(entry[1:]) for entry in table.split()}


def _table(table: str) -> dict[str, str]:
    r"""Read `"times plusminus:pm"` as `{"times": "\times", "plusminus": "\pm"}`."""
    return {word: _command(latex or word) for word, _, latex in (entry.partition(":") for entry in table.split())}


_GREEK_NAMES = "alpha beta gamma delta zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon chi psi omega"
_UNICODE = _characters("""
    αalpha βbeta γgamma δdelta εvarepsilon ϵepsilon ζzeta ηeta θtheta ϑvartheta ιiota κkappa ϰvarkappa λlambda μmu µmu
    νnu ξxi πpi ϖvarpi ρrho ϱvarrho σsigma ςvarsigma τtau υupsilon φvarphi ϕphi χchi ψpsi ωomega ΓGamma ΔDelta ΘTheta
    ΛLambda ΞXi ΠPi ΣSigma ΥUpsilon ϒUpsilon ΦPhi ΨPsi ΩOmega ϝdigamma ×times ÷div ±pm ∓mp ·cdot ⋅cdot ∙bullet •bullet
    ∘circ ○bigcirc ∗* ⋆star ★bigstar −- ‐- ∕/ ⁄/ ∖setminus ⊕oplus ⊖ominus ⊗otimes ⊘oslash ⊙odot ∧wedge ∨vee ⊻veebar
    ∩cap ∪cup ⊎uplus ⊓sqcap ⊔sqcup ∔dotplus ≀wr ⨿amalg †dagger ‡ddagger ⋄diamond ◇diamond ⋉ltimes ⋊rtimes ⋈bowtie ≤leq
    ≥geq ⩽leqslant ⩾geqslant ≦leqq ≧geqq ≠neq ≡equiv ≢not\\equiv ≈approx ≅cong ≃simeq ∼sim ∽backsim ≍asymp ≐doteq
    ≒fallingdotseq ≔coloneqq ≜triangleq ∝propto ≪ll ≫gg ⋘lll ⋙ggg ≺prec ≻succ ⪯preceq ⪰succeq ≮nless ≯ngtr ≰nleq ≱ngeq
    ∣mid ∤nmid ∥parallel ∦nparallel ⫽parallel ⊥bot ⟂perp ⊤top ⊢vdash ⊣dashv ⊨models ⊩Vdash ∈in ∉notin ∋ni ∌not\\ni
    ⊂subset ⊃supset ⊆subseteq ⊇supseteq ⊄not\\subset ⊅not\\supset ⊊subsetneq ⊋supsetneq ⊈nsubseteq ⊉nsupseteq ⊏sqsubset
    ⊐sqsupset ⊑sqsubseteq ⊒sqsupseteq ←leftarrow →rightarrow ↔leftrightarrow ↑uparrow ↓downarrow ↕updownarrow
    ⇐Leftarrow ⇒Rightarrow ⇔Leftrightarrow ⇑Uparrow ⇓Downarrow ⇕Updownarrow ↖nwarrow ↗nearrow ↘searrow ↙swarrow ↦mapsto
    ↩hookleftarrow ↪hookrightarrow ⇌rightleftharpoons ⇋leftrightharpoons ⇀rightharpoonup ⇁rightharpoondown
    ↼leftharpoonup ↽leftharpoondown ⟵longleftarrow ⟶longrightarrow ⟷longleftrightarrow ⟸Longleftarrow ⟹Longrightarrow
    ⟺Longleftrightarrow ⟼longmapsto ⇄rightleftarrows ⇆leftrightarrows ∀forall ∃exists ∄nexists ¬neg ∅emptyset ⌀emptyset
    ∁complement ∴therefore ∵because ∷:: ∶: ∞infty ∂partial ∇nabla ℵaleph ℶbeth ℏhbar ħhbar ℓell ℘wp ℜRe ℑIm ıimath
    ȷjmath ℧mho Åmathring{A} ∠angle ∡measuredangle ∢sphericalangle ∟{\\llcorner} △triangle ▵triangle ▽triangledown
    ▿triangledown ◁triangleleft ▷triangleright □square ■blacksquare ◆blacklozenge °^{\\circ} ℃^{\\circ}\\mathrm{C}
    ℉^{\\circ}\\mathrm{F} …ldots ⋯cdots ⋮vdots ⋱ddots ′' ″'' ‴''' ‵backprime √surd ∑sum ∏prod ∐coprod ∫int ∬iint ∭iiint
    ⨌iiiint ∮oint ∯oiint ∰oiiint ⋃bigcup ⋂bigcap ⋁bigvee ⋀bigwedge ⨁bigoplus ⨂bigotimes ⨀bigodot ⨄biguplus ⨆bigsqcup
    ⟨langle ⟩rangle 〈langle 〉rangle 〈langle 〉rangle ⌈lceil ⌉rceil ⌊lfloor ⌋rfloor ‖\\| ⟦llbracket ⟧rrbracket
    ⎰lmoustache ⎱rmoustache ⟮lgroup ⟯rgroup
""") | dict.fromkeys("\u2061\u2062\u2063\u2064\u200b\u200c\u200d\u2060\ufeff\u00ad\ufe00\ufe0e\ufe0f", "")
_UNICODE |= dict(zip("ΑΒΕΖΗΙΚΜΝΟοΡΤΧ", "ABEZHIKMNOoPTX", strict=True))
_UNICODE |= {mark: f"\\{mark}" for mark in "%#&_${}"} | {"\\": r"\backslash", "~": r"\sim", "^": r"\wedge"}
_TEXT_MARKS = {mark: f"\\{mark}" for mark in "%#&_${}"}
_TEXT_MARKS |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}

_FUNCTIONS = {name: f"\\{name}" for name in """arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf
    ker lg lim liminf limsup ln log max min Pr sec sin sinh sup tan tanh""".split()}  # fmt: skip
_FUNCTIONS |= {name: rf"\operatorname{{{name}}}" for name in """arccot arcsec arccsc arsinh arcosh artanh cosec sech csch
    lcm rank tr sgn erf asin acos atan arc Arg Exp Lim Var Cov""".split()}  # fmt: skip
_LIMITS = re.compile(r"\\(?:lim|limsup|liminf|max|min|sup|inf|det|gcd|Pr|(?:under|over)brace\{.*)|\\operatorname\{Lim\}")

_ACCENTS = _characters("""
    ̂hat ^hat ˆhat ̃tilde ~tilde ˜tilde ̄bar ¯bar ‾bar ̅overline ̇dot ˙dot ̈ddot ¨ddot ⃛dddot ⃜ddddot ́acute ´acute
    ̀grave `grave ̆breve ˘breve ̌check ˇcheck ̊mathring ⃗vec →vec ⃖overleftarrow ←overleftarrow ⃡overleftrightarrow
    ↔overleftrightarrow ̲underline _underline ⏞overbrace ⏟underbrace
""")
_WIDE = {"hat": "widehat", "tilde": "widetilde", "bar": "overline", "vec": "overrightarrow", "check": "widecheck"}
_GROUP_CHARS = {  # (character, position) of OMML's groupChr
    ("⏟", "bot"): "underbrace", ("⏞", "top"): "overbrace", ("→", "top"): "overrightarrow", ("→", "bot"): "xrightarrow",
    ("←", "top"): "overleftarrow", ("←", "bot"): "xleftarrow", ("↔", "top"): "overleftrightarrow",
    ("↔", "bot"): "xleftrightarrow", ("⇒", "bot"): "xRightarrow", ("⇐", "bot"): "xLeftarrow",
    ("⇔", "bot"): "xLeftrightarrow", ("⇌", "bot"): "xrightleftharpoons",
}  # fmt: skip
_FONTS = {"BOLD": "mathbf", "BOLD ITALIC": "boldsymbol", "SCRIPT": "mathcal", "BOLD SCRIPT": "mathcal", "ITALIC": ""}
_FONTS |= {"FRAKTUR": "mathfrak", "BLACK-LETTER": "mathfrak", "BOLD FRAKTUR": "mathfrak", "DOUBLE-STRUCK": "mathbb"}
_FONTS |= {"SANS-SERIF": "mathsf", "MONOSPACE": "mathtt", "SANS-SERIF BOLD": "mathsf", "SANS-SERIF ITALIC": "mathsf"}
_ENVIRONMENTS = {("(", ")"): "pmatrix", ("[", "]"): "bmatrix", ("|", "|"): "vmatrix", (r"\|", r"\|"): "Vmatrix"}
_ENVIRONMENTS |= {(r"\{", r"\}"): "Bmatrix", (r"\{", "."): "cases"}
_TALL = re.compile(r"\\(?:d?frac|binom|begin|sum|prod|coprod|o?i*nt|big|left|middle|sqrt|over|under|x?[lr]ight|atop)")

# --- LaTeX ---


def _join(pieces: Iterable[str]) -> str:
    r"""Put pieces side by side, a space where a command would run into a letter: `\alpha`, `x` -> `\alpha x`."""
    done: list[str] = []
    for piece in pieces:
        if done and piece[:1].isalpha() and re.search(r"\\[A-Za-z]+\Z", done[-1][-24:]):
            done.append(" ")
        if piece.startswith("'") and done and "^{" in done[-1]:
            done.append("{}")  # a prime is a superscript too, and LaTeX takes one only
        if piece:
            done.append(piece)
    return "".join(done)


def _text(text: str) -> str:
    return rf"\text{{{''.join(_TEXT_MARKS.get(char, char) for char in text)}}}" if text.strip() else text[:1]


def _script(base: str, sub: str, sup: str) -> str:
    r"""Attach scripts: `x`, `1`, `2` -> `x_{1}^{2}`; `f`, ``, `'` -> `f'`."""
    base = f"{{{base}}}" if not base or _ends_in_script(base) else base
    sup = r"\circ" if sup == r"^{\circ}" else sup
    below = f"_{{{sub}}}" if sub else ""
    return base + below + (sup if sup and not sup.strip("'") else f"^{{{sup}}}" if sup else "")


def _ends_in_script(latex: str) -> bool:
    depth = 0
    for at in range(len(latex) - 1, -1, -1):
        depth += {"}": 1, "{": -1}.get(latex[at], 0)
        if depth <= 0:
            return latex[at] == "'" or latex[at - 1 : at] in {"^", "_"}
    return False


def _accent(name: str, body: str) -> str:
    single = re.fullmatch(r"(?:\\(?:math[a-z]+|boldsymbol)\{)?(?:.|\\[A-Za-z]+)\}?", body)
    return rf"\{name if single else _WIDE.get(name, name)}{{{body}}}"


def _groups(latex: str) -> int:
    """Count the braced groups that a text consists of; 0 if there is anything beside them."""
    depth = groups = 0
    for mark in re.finditer(r"\\.|[^{}\\]+|[{}]", latex):
        depth += {"{": 1, "}": -1}.get(mark.group(), 0)
        if depth == 0 and mark.group() != "}":
            return 0
        groups += depth == 0
    return groups


def _fence(left: str, right: str, body: str) -> str:
    r"""Put delimiters around a body: plain ones around a flat one; a matrix or a stack becomes what it means."""
    for inner in ("matrix", "aligned"):
        begin, end = rf"\begin{{{inner}}}", rf"\end{{{inner}}}"
        name = _ENVIRONMENTS.get((left, right), "") if inner == "matrix" or right == "." else ""
        if name and body.startswith(begin) and body.endswith(end) and body.count(r"\begin") == 1:
            return rf"\begin{{{name}}}{body[len(begin) : -len(end)]}\end{{{name}}}"
    if (left, right) == ("(", ")") and body.count(r"\atop ") == 1 and _groups(body) == 1:
        return r"\binom{{{}}}{{{}}}".format(*body[1:-1].split(r"\atop "))
    if left == "." or right == "." or _TALL.search(body):
        return _join([rf"\left{left}", body, rf"\right{right}"])
    return _join([left, body, right])


def _array(rows: list[list[str]], name: str, columns: str = "") -> str:
    r"""Write rows of cells as an environment; `[` after `\\` would be taken for an optional argument."""
    lines = ["&".join(row) for row in rows]
    body = r"\\".join("{}" + line if number and line.startswith("[") else line for number, line in enumerate(lines))
    return _join([rf"\begin{{{name}}}" + (f"{{{columns}}}" if columns else ""), body, rf"\end{{{name}}}"])


def _root(degree: str, body: str) -> str:
    degree = f"{{{degree}}}" if "]" in degree else degree
    return rf"\sqrt[{degree}]{{{body}}}" if degree else rf"\sqrt{{{body}}}"


def _stack(over: str, body: str, under: str) -> str:
    r"""Write something above and below an arrow or a relation."""
    arrow = re.fullmatch(r"\\((?:left|right|leftright)arrow)", body)
    if arrow:
        return rf"\x{arrow[1]}" + (f"[{{{under}}}]" if under else "") + f"{{{over}}}"
    body = rf"\underset{{{under}}}{{{body}}}" if under else body
    return rf"\overset{{{over}}}{{{body}}}" if over else body


def _finish(latex: str) -> str:
    r"""Make it one line, join texts, and name square brackets that have no partner."""
    latex = re.sub(r"(\\text\{[^{}]*)\}( ?)\\text\{", r"\1\2", " ".join(latex.split()))
    marks = list(latex)
    opened: list[int] = []
    for at, mark in enumerate(latex):
        if mark == "[":
            opened.append(at)
        elif mark == "]" and opened:
            opened.pop()
        elif mark == "]":
            marks[at] = r"\rbrack "
    for at in opened:
        marks[at] = r"\lbrack "
    return "".join(marks).strip()


# --- characters ---


@lru_cache(maxsize=4096)
def _kind(char: str) -> tuple[str, str]:
    """Tell what a character is, and its font: word, text (of other scripts), sup, sub, styled, or mark."""
    if char in _UNICODE or char.isascii():
        return ("word" if char.isascii() and char.isalpha() else "mark"), ""
    name = unicodedata.name(char, "").removeprefix("MATHEMATICAL ")
    styled = re.match(r"(.+?) (?:CAPITAL|SMALL|DIGIT|PARTIAL|NABLA|EPSILON|THETA|KAPPA|PHI|RHO|PI)\b", name)
    if styled and styled[1] in _FONTS:
        return "styled", _FONTS[styled[1]]
    if name.startswith(("SUPERSCRIPT", "SUBSCRIPT", "MODIFIER LETTER SMALL", "LATIN SUBSCRIPT")):
        return ("sub" if "SUBSCRIPT" in name else "sup"), ""
    return ("text" if char.isalpha() else "mark"), ""


def _math(text: str, font: str = "") -> str:
    r"""Write text as mathematics: `2πr² 넓이` -> `2\pi r^{2} \text{넓이}`; `font` is for letters, such as `mathrm`."""
    pieces: list[str] = []
    for (kind, style), group in groupby(text, _kind):
        run = "".join(group)
        if kind == "word":
            pieces.append(_FUNCTIONS.get(run, "") if font in {"", "mathrm"} else "")
            pieces[-1] = pieces[-1] or (rf"\{font}{{{run}}}" if font else run)
        elif kind == "text":
            pieces.append(_text(run))
        elif kind == "mark":
            pieces += [_marked(char, font) for char in run]
        elif kind == "styled":
            plain = _join(_UNICODE.get(char, char) for char in unicodedata.normalize("NFKC", run))
            style = "boldsymbol" if style == "mathbf" and "\\" in plain else style
            pieces.append(rf"\{style}{{{plain}}}" if style else plain)
        else:
            mark = "^" if kind == "sup" else "_"
            pieces.append(f"{mark}{{{_join(_UNICODE.get(c, c) for c in unicodedata.normalize('NFKC', run))}}}")
    return _join(pieces)


def _marked(char: str, font: str) -> str:
    latex = _UNICODE.get(char, " " if char.isspace() else char)
    if font in {"mathbf", "boldsymbol"} and (char.isdigit() or char.isalpha()):
        return rf"\{'mathbf' if char.isdigit() else 'boldsymbol'}{{{latex}}}"
    return latex


# --- OMML ---

_IGNORED = frozenset("del moveFrom delText instrText annotation bookmarkStart bookmarkEnd proofErr".split())
_RUN_FONTS = {"double-struck": "mathbb", "script": "mathcal", "fraktur": "mathfrak", "sans-serif": "mathsf"}
_RUN_FONTS |= {"monospace": "mathtt", "p": "mathrm", "b": "mathbf", "bi": "boldsymbol"}


def omml(element: _Element) -> str:
    r"""Return an m:oMath or m:oMathPara as LaTeX; the lines of an m:oMathPara are gathered, one below the other."""
    if sum(len(item.text or "") for item in element.iter("{*}t")) > MAX_CHARS:
        return _finish(_text(_plain(element)))
    lines = [child for child in element if _name(child) == "oMath"] if _name(element) == "oMathPara" else [element]
    rows = [[latex] for line in lines or [element] if (latex := _walk(line, 0, False)).strip()]
    return _finish(_array(rows, "gathered") if len(rows) > 1 else "".join(rows[0]) if rows else "")


def _name(element: _Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _plain(element: _Element) -> str:
    return "".join(item.text or "" for item in element.iter("{*}t"))


def _walk(element: _Element, depth: int, aligned: bool = False) -> str:
    """Return an element as LaTeX; `aligned`: in an array of equations, where `&` in the text aligns them."""
    name = _name(element)
    if not name or name in _IGNORED or name.endswith("Pr"):
        return ""
    if depth > MAX_DEPTH:
        return _text(_plain(element))
    if name == "r":
        return _run(element, aligned)
    if name in {"t", "br", "tab"}:
        return _math(element.text or " ")
    if name in _STRUCTURES:
        return _STRUCTURES[name](_Structure(element, depth))
    if name == "AlternateContent":  # the same again in an older form
        element = next((form for form in element if len(form)), element)
    return _join(_walk(child, depth + 1, aligned) for child in element)


def _run(run: _Element, aligned: bool) -> str:
    text = "".join((child.text or "") if _name(child) == "t" else " " for child in run if not _name(child).endswith("Pr"))
    styles = {_name(style): _value(style) for child in run if _name(child) == "rPr" for style in child}
    if styles.get("nor", "off") not in _OFF:
        return _text(text)
    font = _RUN_FONTS.get(styles.get("scr", ""), "") or _RUN_FONTS.get(styles.get("sty", ""), "")
    if not aligned:
        return _math(text, font)
    parts = re.split("([&#])", text)  # `#` sets the number of an equation apart
    return _join({"&": "&", "#": r"\qquad "}.get(part) or _math(part, font) for part in parts)


_OFF = frozenset({"0", "off", "false"})


def _value(element: _Element) -> str:
    return next((str(value) for key, value in element.attrib.items() if str(key).rpartition("}")[2] == "val"), "")


class _Structure(NamedTuple):
    """An OMML structure with its arguments and properties."""

    element: _Element
    depth: int

    def args(self, name: str, aligned: bool = False) -> list[str]:
        """Return each argument called `name` as LaTeX."""
        found = (child for child in self.element if _name(child) == name)
        return [_join(_walk(child, self.depth + 1, aligned) for child in arg) for arg in found]

    def arg(self, name: str = "e") -> str:
        return _join(self.args(name))

    def property(self, name: str, default: str) -> str:
        """Return a property's value, such as the character of an accent; `default` if the file says nothing of it."""
        properties = (item for child in self.element if _name(child).endswith("Pr") for item in child)
        return next((_value(item) for item in properties if _name(item) == name), default)

    def accent(self) -> str:
        char = self.property("chr", "\u0302")
        name = _ACCENTS.get(char, "").removeprefix("\\")
        return _accent(name, self.arg()) if name else _stack(_math(char), self.arg(), "")

    def bar(self) -> str:
        return _accent("bar" if self.property("pos", "bot") == "top" else "underline", self.arg())

    def group_char(self) -> str:
        char, position = self.property("chr", "⏟"), self.property("pos", "bot")
        name = _GROUP_CHARS.get((char, position), "")
        if name or not char:
            return rf"\{name}{{{self.arg()}}}" if name else self.arg()
        mark = r"\frown" if char == "⏜" else r"\smile" if char == "⏝" else _math(char)
        return _stack(mark, self.arg(), "") if position == "top" else _stack("", self.arg(), mark)

    def delimited(self) -> str:
        left, right = (
            _DELIMITERS.get(char) or _math(char) for char in (self.property("begChr", "("), self.property("endChr", ")"))
        )
        separator = self.property("sepChr", "|")
        parts = (part for body in self.args("e") for part in (r"\middle|" if separator == "|" else _math(separator), body))
        return _fence(left, right, _join(islice(parts, 1, None)))

    def equations(self) -> str:
        return _array([[row] for row in self.args("e", aligned=True)], "aligned")

    def fraction(self) -> str:
        over, under, kind = self.arg("num"), self.arg("den"), self.property("type", "bar")
        if kind == "noBar":
            return rf"{{{over}\atop {under}}}"
        if kind in {"lin", "skw"}:
            return "/".join(part if len(part) < 2 or part.isalnum() else f"{{{part}}}" for part in (over, under))
        return rf"\frac{{{over}}}{{{under}}}"

    def function(self) -> str:
        name = self.arg("fName")
        plain = re.fullmatch(r"(?:\\mathrm\{)?([A-Za-z]{2,})\}?", name)
        return _join([rf"\operatorname{{{plain[1]}}}" if plain else name, self.arg()])

    def limit(self) -> str:
        base, below, above = self.arg(), self.arg("lim"), _name(self.element) == "limUpp"
        if _LIMITS.fullmatch(base):
            return _script(base, "", below) if above else _script(base, below, "")
        return _stack(below, base, "") if above else _stack("", base, below)

    def matrix(self) -> str:
        rows = [_Structure(row, self.depth + 1).args("e") for row in self.element if _name(row) == "mr"]
        return _array(rows, "matrix")

    def nary(self) -> str:
        sub = "" if self.property("subHide", "off") not in _OFF else self.arg("sub")
        sup = "" if self.property("supHide", "off") not in _OFF else self.arg("sup")
        return _join([_script(_math(self.property("chr", "∫")), sub, sup), self.arg()])

    def phantom(self) -> str:
        return rf"\phantom{{{self.arg()}}}" if self.property("show", "on") in _OFF else self.arg()

    def radical(self) -> str:
        return _root("" if self.property("degHide", "off") not in _OFF else self.arg("deg"), self.arg())

    def scripts(self) -> str:
        return _script(self.arg(), self.arg("sub"), self.arg("sup"))

    def before(self) -> str:
        return _join([_script("{}", self.arg("sub"), self.arg("sup")), self.arg()])

    def boxed(self) -> str:
        return rf"\boxed{{{self.arg()}}}"


_DELIMITERS = {"": ".", "<": r"\langle", ">": r"\rangle", "∣": "|", "∥": r"\|", "/": "/", "||": r"\|"}
_STRUCTURES: dict[str, Callable[[_Structure], str]] = {
    "acc": _Structure.accent, "bar": _Structure.bar, "groupChr": _Structure.group_char, "d": _Structure.delimited,
    "eqArr": _Structure.equations, "f": _Structure.fraction, "func": _Structure.function, "limLow": _Structure.limit,
    "limUpp": _Structure.limit, "m": _Structure.matrix, "nary": _Structure.nary, "phant": _Structure.phantom,
    "rad": _Structure.radical, "sSub": _Structure.scripts, "sSup": _Structure.scripts, "sSubSup": _Structure.scripts,
    "sPre": _Structure.before, "borderBox": _Structure.boxed,
}  # fmt: skip

# --- Hancom's script: words ---

_GREEK = {name: f"\\{name}" for name in f"{_GREEK_NAMES} epsilon phi".split()} | {"omicron": "o"}
_GREEK |= {name.capitalize(): _UNICODE[chr(ord("Α") + at)] for at, name in enumerate("""alpha beta gamma delta epsilon
    zeta eta theta iota kappa lambda mu nu xi omicron pi rho _ sigma tau upsilon phi chi psi omega""".split()) if at != 17}
_GREEK |= {f"var{name}": rf"\var{name}" for name in "epsilon theta pi rho sigma phi".split()}
_GREEK |= {"varupsilon": r"\Upsilon"}
_ARROWS = _table("""
    larrow:leftarrow rarrow:rightarrow uparrow downarrow lrarrow:leftrightarrow udarrow:updownarrow LARROW:Leftarrow
    RARROW:Rightarrow UPARROW:Uparrow DOWNARROW:Downarrow LRARROW:Leftrightarrow UDARROW:Updownarrow leftarrow
    rightarrow LEFTARROW:Leftarrow RIGHTARROW:Rightarrow
""")
_OPERATORS = _table("""
    times div divide:div cdot plusminus:pm pm minusplus:mp mp ast:* circ bullet star oplus ominus otimes odot oslash
    odiv:oslash dsum:dotplus setminus cap cup smallinter:cap smallunion:cup uplus sqcap sqcup vee wedge lor:vee
    land:wedge xor:veebar leq le:leq geq ge:geq ne:neq neq nequiv:not\\equiv sim approx simeq cong equiv asymp iso:cong
    doteq propto ll gg lll ggg prec succ in notin owns:ni ni subset supset superset:supset subseteq supseteq sqsubset
    sqsupset sqsubseteq sqsupseteq parallel perp bot:perp vdash assert:vdash dashv massert:dashv hleft:vdash models
    mapsto nwarrow nearrow searrow swarrow hookleft:hookleftarrow hookright:hookrightarrow exarrow:rightarrow
    lrharpoons:leftrightharpoons rlharpoons:rightleftharpoons mod:bmod slash:/ lslant:/ rslant:setminus identical:::
    +-:pm -+:mp <=:leq >=:geq !=:neq ==:equiv <<:ll >>:gg <<<:lll >>>:ggg ->:rightarrow <-:leftarrow <->:leftrightarrow
    =>:Rightarrow <=>:Leftrightarrow
""") | {mark: mark for mark in "=+-<>,;:/*"}
_SYMBOLS = _table("""
    inf:infty infinity:infty infty prime:' partial nabla grad:nabla del:nabla laplace:mathcal{L} therefore because
    exist:exists exists forall lnot:neg neg emptyset top angle msangle:measuredangle sangle:sphericalangle
    rtangle:{\\llcorner} triangle triangleu:triangle triangled:triangledown trianglel:triangleleft
    triangler:triangleright diamond bigcirc aleph hbar imath jmath ohm:Omega mho ell liter:ell wp imag:Im image:Im
    real:Re reimage:Re angstrom:mathring{A} dagger ddagger cdots ldots vdots ddots dotsaxis:cdots dotslow:ldots
    dotsvert:vdots dotsdiag:ddots ...:ldots amalg centigrade:^{\\circ}\\mathrm{C} fahrenheit:^{\\circ}\\mathrm{F}
    hund:text{‰} thou:text{‱} att:text{※} well:\\# base:square benzene:text{◎} backslash vert:| line:| dline:\\| ||:\\|
    lbrace:\\{ rbrace:\\} lbrack:[ rbrack:] lparen:( rparen:) langle rangle lceil rceil lfloor rfloor if:text{if}
    for:text{for} and:text{and} or:text{or} def:text{def}
""")
_BIG = _table("""
    sum smallsum:sum prod smallprod:prod coprod smcoprod:coprod int smallint:int integral:int dint:iint iint tint:iiint
    iiint oint smalloint:oint odint:oiint otint:oiiint union:bigcup inter:bigcap bigcup bigcap bigsqcup bigsqcap:sqcap
    bigoplus bigominus:ominus bigotimes bigodot bigodiv:oslash biguplus bigvee bigwedge lim max min
""")
_MARKS = _table("""
    acute grave dot ddot dddot hat check breve tilde bar vec overline underline under:underline dyad:overleftrightarrow
    box:boxed overbrace underbrace phantom
""")
_TABLES = {"matrix": "matrix", "pmatrix": "pmatrix", "bmatrix": "bmatrix", "dmatrix": "vmatrix", "vmatrix": "vmatrix"}
_TABLES |= {"cases": "cases", "eqalign": "aligned", "pile": "matrix", "cpile": "matrix", "lpile": "l", "rpile": "r"}
_TABLES |= {"ladder": "r|", "sladder": "r|", "col": "matrix", "ccol": "matrix", "lcol": "matrix", "rcol": "matrix"}
_SCRIPTS = {"^": "^", "sup": "^", "_": "_", "sub": "_", "from": "_", "to": "^", "lsub": "_", "lsup": "^"}
_OTHERS = frozenset("""over atop choose binom sqrt root of left right not rel buildrel arch longdiv color scale
    bigg big rm it bold mit { ( [""".split())  # fmt: skip
_WORDS = {*_OPERATORS, *_SYMBOLS, *_BIG, *_MARKS, *_TABLES, *_SCRIPTS, *_OTHERS, *_FUNCTIONS}
_LATEX = _FUNCTIONS | _BIG | _SYMBOLS | _OPERATORS | _ARROWS | _GREEK
# Words that the editor also finds where a letter follows: `timesm`, `sinx`, `rmCa`. Not those that begin other words.
_GLUED = frozenset("""times div cdot cdots ldots sim leq geq neq approx equiv cong simeq prime therefore because angle
    triangle partial nabla sqrt over sum int prod sin cos tan cot sec csc log ln lim exp rm bold""".split()) | {
    name.lower() for name in _GREEK if len(name) > 2}  # fmt: skip
_TOKEN = re.compile(
    r"""(?P<space>\s*)(?:"(?P<quoted>[^"]*)"?|(?P<text>[^\W\d_A-Za-z]+(?:[~`\s]+[^\W\d_A-Za-z]+)*)|(?P<word>[A-Za-z]+)"""
    r"""|(?P<other>\d+(?:\.\d+)?|<->|<=>|<<<|>>>|->|<-|<=|>=|!=|==|=>|\+-|-\+|<<|>>|\|\||\.{3}|[~`]+|\\(?=[A-Za-z])|.))""",
    re.DOTALL,
)


class _Token(NamedTuple):
    """A word of a script: `text` as written, `word` if it is one of Hancom's, `spaced` if a blank goes before it."""

    text: str
    word: str
    spaced: bool
    quoted: bool = False


def _word(text: str) -> str:
    """`TIMES`, `Times` -> `times`; `ALPHA` -> `Alpha`; `LARROW` -> `LARROW`; nothing for what is no word of Hancom's."""
    if text in _ARROWS or text in _WORDS:
        return text
    if not (text.islower() or text.isupper() or text.istitle()):
        return ""
    greek = text if text.islower() else text.capitalize()
    lower = text.lower()
    return greek if greek in _GREEK else lower if lower in _WORDS or lower in _ARROWS else ""


def _split(text: str) -> list[str]:
    """`timesm` -> `times`, `m`; `cdotscdots` -> `cdots`, `cdots`; `house` -> `house`."""
    parts, rest = list[str](), text
    while not _word(rest):
        lengths = range(min(len(rest) - 1, 9), 1, -1)
        found = next((rest[:n] for n in lengths if _word(rest[:n]) and rest[:n].lower() in _GLUED), "")
        if not found and re.fullmatch("it(?:aq|[a-z])", rest):
            found = "it"
        if not found:
            break
        parts.append(found)
        rest = rest[len(found) :]
    whole = _word(rest) or len(rest) == 1 or rest.isupper() or parts[-1:] in (["rm"], ["bold"], ["it"])
    return [*parts, rest] if parts and whole else [text]


def _tokens(script: str) -> list[_Token]:
    tokens: list[_Token] = []
    for match in _TOKEN.finditer(script.rstrip()):
        spaced = bool(match["space"])
        if match["word"]:
            parts = _split(match["word"])
            tokens += [_Token(part, _word(part), spaced and at == 0) for at, part in enumerate(parts)]
        elif match["quoted"] is not None or match["text"]:
            text = match["quoted"] if match["text"] is None else re.sub(r"[~`\s]+", " ", match["text"])
            tokens.append(_Token(text, "", spaced, quoted=match["text"] is None))
        elif match["other"] != "\\" or match["other"] == script[-1:]:
            tokens.append(_Token(match["other"], match["other"] if match["other"] in _WORDS else "", spaced))
    return tokens


# --- Hancom's script: grammar ---

_FENCES = frozenset("""( ) [ ] { } | || < > / . lbrace rbrace lbrack rbrack lparen rparen langle rangle lceil rceil lfloor
    rfloor vert line dline uparrow downarrow udarrow""".split())  # fmt: skip
_NEGATED = {"=": r"\neq", r"\in": r"\notin", r"\equiv": r"\not\equiv", "<": r"\nless", ">": r"\ngtr"}
_FONT_WORDS = {"rm": "mathrm", "bold": "mathbf", "it": "", "mit": ""}
_END = _Token("", "", False)


class _Item(NamedTuple):
    """What stands in a row: `kind` is group, operator (which ends a term) or nothing."""

    latex: str
    kind: str
    spaced: bool


class _Parser:
    """Reads tokens, each of them once; beyond MAX_DEPTH structures are read as the words they are made of."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0
        self.font = ""

    @property
    def token(self) -> _Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else _END

    def take(self) -> _Token:
        token = self.token
        self.at += 1
        return token

    def ends(self) -> bool:
        """Tell whether the cell is at its end."""
        return self.token.word == "right" or (self.token.text in {"", "}", "&", "#"} and not self.token.quoted)

    def all(self) -> str:
        pieces = [self.block()]
        while self.at < len(self.tokens):  # a `}` or a `right` without a partner
            if self.take().word == "right" and (mark := self.delimiter()) != ".":
                pieces.append(mark)
            pieces.append(self.block())
        return _join(pieces)

    def block(self) -> str:
        rows = self.rows()
        return _array(rows, "aligned") if len(rows) > 1 or len(rows[0]) > 1 else rows[0][0]

    def rows(self) -> list[list[str]]:
        rows = [[self.row()]]
        while self.token.text in {"&", "#"} and not self.token.quoted:
            rows += [[]] if self.take().text == "#" else []
            rows[-1].append(self.row())
        return rows

    def row(self, bracket: bool = False) -> str:
        """Read terms up to the end of the cell; in a bracket, up to what closes it."""
        items: list[_Item] = []
        while not self.ends() and not (bracket and self.token.text in {")", "]"}):
            if self.token.word in {"over", "atop", "choose"}:
                items.append(self.fraction(items))
            elif self.token.word in _SCRIPTS:
                base = items.pop() if items else _Item("", "", False)
                latex = self.scripts(base.latex, False)
                items.append(base._replace(latex=latex))
            else:
                items.append(self.item())
        pieces = []
        for item in items:
            apart = item.spaced and item.latex[:1].isalnum() and pieces and pieces[-1][-1:].isalnum()
            pieces.append(f" {item.latex}" if apart else item.latex)
        return _join(pieces)

    def fraction(self, items: list[_Item]) -> _Item:
        """Take the term before `over` out of `items`, and read the one behind: `x=2a over 3b` -> 2a, 3b."""
        word = self.take().word
        start = len(items) - (bool(items) and items[-1].kind != "operator")
        while 0 < start < len(items) and not (items[start].kind or items[start].spaced or items[start - 1].kind):
            start -= 1
        over = _join(item.latex for item in items[start:])
        spaced = start == len(items) or items[start].spaced
        del items[start:]
        parts = [_LATEX[self.take().word]] if self.token.word in _SIGNS else []
        while not self.ends() and self.token.text not in {")", "]"}:
            item = self.item()
            parts.append(item.latex)
            if item.kind or self.token.spaced or self.token.text == "{" or self.token.word in _TERM_ENDS:
                break
        under = _join(parts)
        commands = {"over": rf"\frac{{{over}}}{{{under}}}", "choose": rf"\binom{{{over}}}{{{under}}}"}
        return _Item(commands.get(word, rf"{{{over}\atop {under}}}"), "", spaced)

    def item(self) -> _Item:
        """Read one factor with its scripts."""
        spaced = self.token.spaced
        self.switch_font()
        token = self.token
        blank = not token.quoted and not token.text.strip("~`")
        kind = "group" if token.text == "{" else "operator" if blank or token.word in _TERM_ENDS else ""
        latex = self.factor()
        if kind == "group" and len(latex) > 1 and self.token.word in _SCRIPTS:
            latex = f"{{{latex}}}"
        return _Item(self.scripts(latex, token.word in _BIG), kind, spaced)

    def scripts(self, base: str, big: bool) -> str:
        """Attach the scripts that follow; `big`: to an operator, whose lower limit may be `k=1` without braces."""
        marks, left, last = {"_": "", "^": ""}, "", ""
        while (word := self.token.word) in _SCRIPTS and (word != "to" or last == "from"):
            self.at += 1
            mark, last = _SCRIPTS[word], word
            value = self.operand(big and mark == "_")
            if mark == "^" and self.token.word == "sqrt" and not self.token.spaced:  # `^3sqrt{x}` is a cube root
                self.at += 1
                root = _root(value, self.item().latex)
                return _join([_script(base, marks["_"], marks["^"]), root] if base else [root])
            if word in {"lsub", "lsup"}:
                left += f"{mark}{{{value}}}"
                continue
            if marks[mark]:  # LaTeX takes one of a kind
                base, marks = _script(base, marks["_"], marks["^"]) + "{}", {"_": "", "^": ""}
            marks[mark] = value
        latex = _script(base, marks["_"], marks["^"]) if any(marks.values()) else base
        return _join(["{}" + left, latex]) if left else latex

    def operand(self, limit: bool) -> str:
        parts = [_LATEX[self.take().word]] if self.token.word in _SIGNS else []
        parts.append(self.factor())
        while limit and self.token.word in _TERM_ENDS and not self.token.spaced:
            parts += [_LATEX[self.take().word], self.factor()]
        return _join(parts)

    def switch_font(self) -> None:
        while self.token.word in _FONT_WORDS:
            self.font = _FONT_WORDS[self.take().word]

    def factor(self) -> str:
        """Read a word, a number, a group, or a structure with its arguments; nothing at the end of the cell."""
        self.switch_font()
        if self.ends():
            return ""
        token = self.take()
        if self.depth >= MAX_DEPTH or token.quoted:
            return self.leaf(token)
        self.depth += 1
        latex = self.structure(token)
        self.depth -= 1
        return latex

    def structure(self, token: _Token) -> str:
        word = token.word
        if word in _PARTS:
            return _PARTS[word](self)
        if word in _MARKS:
            return _accent(_MARKS[word][1:], self.factor())
        if word in _TABLES and self.token.text == "{":
            return self.table(_TABLES[word])
        if word in {"union", "inter"} and self.token.word not in _SCRIPTS:
            return r"\cup" if word == "union" else r"\cap"
        return self.leaf(token)

    def leaf(self, token: _Token) -> str:
        if token.quoted:
            return _text(token.text)
        if not token.text.strip("~`{"):
            return r"\;" if "~" in token.text else r"\," if token.text[0] == "`" else ""
        latex = _LATEX.get(token.word, "")
        if self.font == "mathbf" and token.word in _GREEK:
            return rf"\boldsymbol{{{latex}}}"
        return latex or _math(token.text, self.font)

    def group(self) -> str:
        font, latex = self.font, self.block()
        self.close(font)
        return latex

    def close(self, font: str) -> None:
        self.at += self.token.text == "}"
        self.font = font

    def bracket(self) -> str:
        left, body = self.tokens[self.at - 1].text, self.row(bracket=True)
        return _fence(left, self.take().text, body) if self.token.text in {")", "]"} else _join([left, body])

    def fence(self) -> str:
        left, body, right = self.delimiter(), self.block(), "."
        if self.token.word == "right":
            self.at += 1
            right = self.delimiter()
        return _fence(left, right, body)

    def delimiter(self) -> str:
        text = self.token.text.lower()
        if text not in _FENCES or self.token.quoted:
            return "."
        self.at += 1
        return _DELIMITERS.get(text) or _LATEX.get(text) or {"{": r"\{", "}": r"\}"}.get(text, text)

    def table(self, name: str) -> str:
        font = self.font
        self.at += 1
        rows = self.rows()
        self.close(font)
        columns = (name + "r" * (max(map(len, rows)) - 1)) if name[:1] in "lr" and len(name) < 3 else ""
        return _array(rows, "array" if columns else name, columns)

    def root(self) -> str:
        """`root 3 of x`; without `of`, a square root."""
        body = self.item().latex
        if self.token.word != "of":
            return _root("", body)
        self.at += 1
        return _root(body, self.item().latex)

    def division(self) -> str:
        """`LONGDIV {divisor}{quotient}{dividend#remainders}`."""
        divisor, quotient = self.factor(), self.factor()
        self.at += self.token.text == "{"
        first, *rest = self.rows()
        self.close(self.font)
        return _array([[quotient], [rf"{divisor}\overline{{){_join(first)}}}"], *rest], "array", "r")

    def relation(self, under: bool) -> str:
        arrow, above = self.factor(), self.factor()
        return _stack(above, arrow, self.factor() if under else "")

    def negated(self) -> str:
        latex = self.factor()
        return _NEGATED.get(latex) or _join([r"\not", latex])

    def bigger(self) -> str:
        mark = self.delimiter()
        return self.factor() if mark == "." else rf"\bigg{mark}"

    def second(self) -> str:
        """Skip a colour or a size."""
        self.factor()
        return self.factor()


_PARTS: dict[str, Callable[[_Parser], str]] = {
    "{": _Parser.group, "(": _Parser.bracket, "[": _Parser.bracket, "left": _Parser.fence, "sqrt": _Parser.root,
    "root": _Parser.root, "not": _Parser.negated, "longdiv": _Parser.division, "color": _Parser.second,
    "scale": _Parser.second, "bigg": _Parser.bigger, "big": _Parser.bigger,
    "rel": lambda parser: parser.relation(True), "buildrel": lambda parser: parser.relation(False),
    "arch": lambda parser: _stack(r"\frown", parser.factor(), ""),
    "binom": lambda parser: rf"\binom{{{parser.factor()}}}{{{parser.factor()}}}",
}  # fmt: skip
_SIGNS = frozenset({"-", "+", "+-", "-+"})
_TERM_ENDS = frozenset({*_OPERATORS, *_ARROWS, "over", "atop", "choose"})


def hancom(script: str) -> str:
    """Return a script of Hangul's equation editor as LaTeX."""
    if len(script) > MAX_CHARS:
        return _finish(_text(re.sub(r"[{}\s]+", " ", script)))
    return _finish(_Parser(_tokens(script)).all())
