r"""Turn the equations of documents into LaTeX: OMML, as .docx has it, and the script of Hangul's equation editor.

    <m:f><m:num>…a+b…</m:num><m:den>…2…</m:den></m:f>   ->   \frac{a+b}{2}
    {a+b} over 2 = sum _{k=1} ^{n} root 3 of x_k         ->   \frac{a+b}{2}=\sum_{k=1}^{n}\sqrt[3]{x_{k}}

The result is one line whose braces and square brackets are balanced (a lone `[` becomes `\lbrack`), so `[math: …]` has
an end. What isn't known degrades to its own text, as does what is nested too deep or too long; work is linear in the
input. Hancom's words are those of its published description, revision 1.3. It says little of how words stand next to
each other: there the code follows what the editor shows. Sizes, colours and where limits stand are left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lxml.etree import _Element

MAX_DEPTH = 40  # fractions in fractions, and so on
MAX_CHARS = 20_000  # of one equation

# --- characters, functions, delimiters ---


def _table(table: str) -> dict[str, str]:
    r"""Read `"times ÷:div mod:\bmod ∶::"` as `{"times": "\times", "÷": "\div", "mod": "\bmod", "∶": ":"}`."""
    entries = ((word, latex or word) for word, _, latex in (entry.partition(":") for entry in table.split()))
    return {word: f"\\{latex}" if latex[0].isalpha() else latex for word, latex in entries}


_UNICODE = _table("""
    α:alpha β:beta γ:gamma δ:delta ε:varepsilon ϵ:epsilon ζ:zeta η:eta θ:theta ϑ:vartheta ι:iota κ:kappa ϰ:varkappa
    λ:lambda μ:mu µ:mu ν:nu ξ:xi π:pi ϖ:varpi ρ:rho ϱ:varrho σ:sigma ς:varsigma τ:tau υ:upsilon φ:varphi ϕ:phi χ:chi
    ψ:psi ω:omega Γ:Gamma Δ:Delta Θ:Theta Λ:Lambda Ξ:Xi Π:Pi Σ:Sigma Υ:Upsilon ϒ:Upsilon Φ:Phi Ψ:Psi Ω:Omega ×:times
    ÷:div ±:pm ∓:mp ·:cdot ⋅:cdot ∙:bullet •:bullet ∘:circ ○:bigcirc ∗:* ⋆:star ★:bigstar −:- ∕:/ ∖:setminus ⊕:oplus
    ⊖:ominus ⊗:otimes ⊘:oslash ⊙:odot ∧:wedge ∨:vee ∩:cap ∪:cup ⊎:uplus ⊓:sqcap ⊔:sqcup †:dagger ‡:ddagger ◇:diamond
    ≤:leq ≥:geq ⩽:leqslant ⩾:geqslant ≦:leqq ≧:geqq ≠:neq ≡:equiv ≢:not\\equiv ≈:approx ≅:cong ≃:simeq ∼:sim ∽:backsim
    ≍:asymp ≐:doteq ≒:fallingdotseq ≔:coloneqq ≜:triangleq ∝:propto ≪:ll ≫:gg ⋘:lll ⋙:ggg ≺:prec ≻:succ ⪯:preceq
    ⪰:succeq ≮:nless ≯:ngtr ≰:nleq ≱:ngeq ∣:mid ∤:nmid ∥:parallel ∦:nparallel ⊥:bot ⟂:perp ⊤:top ⊢:vdash ⊣:dashv
    ⊨:models ∈:in ∉:notin ∋:ni ⊂:subset ⊃:supset ⊆:subseteq ⊇:supseteq ⊄:not\\subset ⊊:subsetneq ⊋:supsetneq ⊈:nsubseteq
    ⊉:nsupseteq ⊏:sqsubset ⊐:sqsupset ⊑:sqsubseteq ⊒:sqsupseteq ←:leftarrow →:rightarrow ↔:leftrightarrow ↑:uparrow
    ↓:downarrow ↕:updownarrow ⇐:Leftarrow ⇒:Rightarrow ⇔:Leftrightarrow ⇑:Uparrow ⇓:Downarrow ⇕:Updownarrow ↖:nwarrow
    ↗:nearrow ↘:searrow ↙:swarrow ↦:mapsto ↩:hookleftarrow ↪:hookrightarrow ⇌:rightleftharpoons ⇀:rightharpoonup
    ⇁:rightharpoondown ⟶:longrightarrow ⟷:longleftrightarrow ⟹:Longrightarrow ⟺:Longleftrightarrow ⟼:longmapsto ∀:forall
    ∃:exists ∄:nexists ¬:neg ∅:emptyset ∁:complement ∴:therefore ∵:because ∶:: ∞:infty ∂:partial ∇:nabla ℵ:aleph ℏ:hbar
    ħ:hbar ℓ:ell ℘:wp ℜ:Re ℑ:Im ı:imath ȷ:jmath ℧:mho Å:mathring{A} ∠:angle ∡:measuredangle ∢:sphericalangle
    ∟:{\\llcorner} △:triangle ▽:triangledown ◁:triangleleft ▷:triangleright □:square ■:blacksquare ◆:blacklozenge
    °:^{\\circ} ℃:^{\\circ}\\mathrm{C} ℉:^{\\circ}\\mathrm{F} …:ldots ⋯:cdots ⋮:vdots ⋱:ddots ′:' ″:'' ‴:''' ‵:backprime
    √:surd ∑:sum ∏:prod ∐:coprod ∫:int ∬:iint ∭:iiint ⨌:iiiint ∮:oint ∯:oiint ∰:oiiint ⋃:bigcup ⋂:bigcap ⋁:bigvee
    ⋀:bigwedge ⨁:bigoplus ⨂:bigotimes ⨀:bigodot ⨄:biguplus ⨆:bigsqcup ⟨:langle ⟩:rangle 〈:langle 〉:rangle 〈:langle
    〉:rangle ⌈:lceil ⌉:rceil ⌊:lfloor ⌋:rfloor ‖:\\|
""")
_UNICODE |= dict(zip("ΑΒΕΖΗΙΚΜΝΟοΡΤΧ", "ABEZHIKMNOoPTX", strict=True))
_UNICODE |= {"\\": r"\backslash", "~": r"\sim", "^": r"\wedge"} | dict.fromkeys(
    "\u2061\u2062\u2063\u2064\u200b\u200c\u200d\u2060\ufeff\u00ad\ufe00\ufe0e\ufe0f", ""
)
_ESCAPED = {mark: f"\\{mark}" for mark in "%#&_${}"}
_UNICODE |= _ESCAPED
_ESCAPED |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_FUNCTIONS = _table("""
    arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf ker lg lim liminf limsup ln log max min
    Pr sec sin sinh sup tan tanh mod:bmod
""")
_FUNCTIONS |= {name: rf"\operatorname{{{name}}}" for name in _table("""
    arccot arcsec arccsc arsinh arcosh artanh cosec sech csch lcm rank tr sgn erf asin acos atan arc Arg Exp Lim Var Cov
""")}  # fmt: skip
_LIMITS = re.compile(r"\\(?:lim|limsup|liminf|max|min|sup|inf|det|gcd|Pr|sum|prod|big\w+|(?:under|over)brace\{.*)")
_ACCENTS = _table("""
    \u0302:hat ^:hat ˆ:hat \u0303:tilde ~:tilde ˜:tilde \u0304:bar ¯:bar ‾:bar \u0305:overline \u0307:dot ˙:dot
    \u0308:ddot ¨:ddot \u20db:dddot \u20dc:ddddot \u0301:acute ´:acute \u0300:grave `:grave \u0306:breve ˘:breve
    \u030c:check ˇ:check \u030a:mathring \u20d7:vec →:vec \u20d6:overleftarrow ←:overleftarrow \u0332:underline
    \u20e1:overleftrightarrow ↔:overleftrightarrow _:underline ⏞:overbrace ⏟:underbrace
""")
_WIDE = _table("hat:widehat tilde:widetilde bar:overline vec:overrightarrow check:widecheck")
_FONTS = {"BOLD": "mathbf", "BOLD ITALIC": "mathbf", "SCRIPT": "mathcal", "BOLD SCRIPT": "mathcal", "ITALIC": ""}
_FONTS |= {"FRAKTUR": "mathfrak", "BLACK-LETTER": "mathfrak", "BOLD FRAKTUR": "mathfrak", "DOUBLE-STRUCK": "mathbb"}
_FONTS |= {"SANS-SERIF": "mathsf", "SANS-SERIF BOLD": "mathsf", "SANS-SERIF ITALIC": "mathsf", "MONOSPACE": "mathtt"}
_DELIMITERS = {"": ".", "<": r"\langle", ">": r"\rangle", "∣": "|", "∥": r"\|", "{": r"\{", "}": r"\}", "||": r"\|"}
_MATRICES = {("(", ")"): "pmatrix", ("[", "]"): "bmatrix", ("|", "|"): "vmatrix", (r"\|", r"\|"): "Vmatrix"}
_MATRICES |= {(r"\{", r"\}"): "Bmatrix", (r"\{", "."): "cases"}
_TALL = re.compile(r"\\(?:d?frac|binom|begin|sum|prod|coprod|o?i*nt|big|left|middle|sqrt|over|under|atop)")
_INNER = r"(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*"  # balanced braces, as deep as they are met
_STACK = re.compile(rf"\{{({_INNER}?)\\atop ({_INNER})\}}")
_TEXTS = re.compile(r"\\text\{[^{}]*\}(?: ?\\text\{[^{}]*\})+")
_SCRIPTED = re.compile(rf"[\^_]\{{{_INNER}\}}\Z|'\Z")

# --- LaTeX ---


def _join(pieces: Iterable[str]) -> str:
    r"""Put pieces side by side, a space where a command would run into a letter: `\alpha`, `x` -> `\alpha x`."""
    done: list[str] = []
    for piece in filter(None, pieces):
        if done and piece[0].isalpha() and re.search(r"\\[A-Za-z]+\Z", done[-1][-24:]):
            done.append(" ")
        elif done and piece[0] == "'" and "^{" in done[-1]:
            done.append("{}")  # a prime is a superscript too, and LaTeX takes one only
        done.append(piece)
    return "".join(done)


def _text(text: str) -> str:
    return rf"\text{{{''.join(_ESCAPED.get(char, char) for char in text)}}}" if text.strip() else text[:1]


def _script(base: str, sub: str, sup: str) -> str:
    r"""Attach scripts: `x`, `1`, `2` -> `x_{1}^{2}`; `f`, ``, `'` -> `f'`."""
    base = f"{{{base}}}" if not base or _SCRIPTED.search(base) else base
    sup = r"\circ" if sup == r"^{\circ}" else sup
    return base + (f"_{{{sub}}}" if sub else "") + (f"^{{{sup}}}" if sup.strip("'") else sup)


def _accent(name: str, body: str) -> str:
    single = re.fullmatch(r"(?:\\math[a-z]+\{)?(?:.|\\[A-Za-z]+)\}?", body)
    return rf"{name if single else _WIDE.get(name[1:], name)}{{{body}}}"


def _fence(left: str, right: str, body: str) -> str:
    r"""Put delimiters around a body: plain ones around a flat one; a matrix or a stack becomes what it means."""
    for inner in ("matrix", "aligned"):
        begin, end = rf"\begin{{{inner}}}", rf"\end{{{inner}}}"
        name = _MATRICES.get((left, right), "") if inner == "matrix" or right == "." else ""
        if name and body.startswith(begin) and body.endswith(end) and body.count(r"\begin") == 1:
            return rf"\begin{{{name}}}{body[len(begin) : -len(end)]}\end{{{name}}}"
    if (left, right) == ("(", ")") and (stack := _STACK.fullmatch(body)):
        return rf"\binom{{{stack[1]}}}{{{stack[2]}}}"
    if left == "." or right == "." or _TALL.search(body):
        left, right = rf"\left{left}", rf"\right{right}"
    return _join([left, body, right])


def _array(rows: list[list[str]], name: str) -> str:
    r"""Write rows of cells as an environment; `[` after `\\` would be taken for an optional argument."""
    lines = ["&".join(row) for row in rows]
    body = r"\\".join("{}" + line if at and line.startswith("[") else line for at, line in enumerate(lines))
    return _join([rf"\begin{{{name}}}", body, rf"\end{{{name.partition('}')[0]}}}"])


def _root(degree: str, body: str) -> str:
    degree = f"{{{degree}}}" if "]" in degree else degree
    return rf"\sqrt[{degree}]{{{body}}}" if degree else rf"\sqrt{{{body}}}"


def _stacked(over: str, body: str, under: str = "") -> str:
    r"""Write something above and below an arrow or a relation."""
    if arrow := re.fullmatch(r"\\((?:left|right|leftright)arrow)", body):
        return rf"\x{arrow[1]}" + (f"[{{{under}}}]" if under else "") + f"{{{over}}}"
    body = rf"\underset{{{under}}}{{{body}}}" if under else body
    return rf"\overset{{{over}}}{{{body}}}" if over else body


def _finish(latex: str) -> str:
    r"""Make it one line, join texts, and name square brackets that have no partner."""
    latex = _TEXTS.sub(lambda run: re.sub(r"\}( ?)\\text\{", r"\1", run[0]), " ".join(latex.split()))
    marks, opened = list(latex), list[int]()
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


@lru_cache(maxsize=4096)
def _kind(char: str) -> tuple[str, str]:
    """Tell what a character is, and its font: word, text (of other scripts), ^ or _ (small ones), styled, or mark."""
    if char in _UNICODE or char.isascii():
        return ("word" if char.isascii() and char.isalpha() else "mark"), ""
    name = unicodedata.name(char, "").removeprefix("MATHEMATICAL ")
    styled = re.match(r"(.+?) (?:CAPITAL|SMALL|DIGIT|PARTIAL|NABLA|EPSILON|THETA|KAPPA|PHI|RHO|PI)\b", name)
    if unicodedata.normalize("NFKC", char) != char:
        if styled and styled[1] in _FONTS:
            return "styled", _FONTS[styled[1]]
        if name.startswith(("SUPERSCRIPT", "SUBSCRIPT", "MODIFIER LETTER SMALL", "LATIN SUBSCRIPT")):
            return ("_" if "SUBSCRIPT" in name else "^"), ""
    return ("text" if char.isalpha() else "mark"), ""


def _math(text: str, font: str = "") -> str:
    r"""Write text as mathematics: `2πr² 넓이` -> `2\pi r^{2} \text{넓이}`; `font` is for letters, such as `mathrm`."""
    pieces: list[str] = []
    for (kind, style), group in groupby(text, _kind):
        run = "".join(group)
        if kind == "word":
            function = _FUNCTIONS.get(run, "") if font in {"", "mathrm"} else ""
            pieces.append(function or (rf"\{font}{{{run}}}" if font else run))
        elif kind == "mark":
            pieces += [_marked(char, font) for char in run]
        elif kind == "text":
            pieces.append(_text(run))
        else:
            plain = _math(unicodedata.normalize("NFKC", run), style)
            pieces.append(plain if kind == "styled" else f"{kind}{{{plain}}}")
    return _join(pieces)


def _marked(char: str, font: str) -> str:
    latex = _UNICODE.get(char, " " if char.isspace() else char)
    if font in {"", "mathrm"} or not char.isalnum():
        return latex
    return rf"\{'boldsymbol' if font == 'mathbf' and char.isalpha() else font}{{{latex}}}"


# --- OMML ---

_IGNORED = frozenset(_table("del moveFrom delText instrText annotation"))
_RUN_FONTS = {"double-struck": "mathbb", "script": "mathcal", "fraktur": "mathfrak", "sans-serif": "mathsf"}
_RUN_FONTS |= {"monospace": "mathtt", "p": "mathrm", "b": "mathbf", "bi": "mathbf"}
_GROUP_CHARS = {("⏟", "bot"): r"\underbrace", ("⏞", "top"): r"\overbrace"}
for _char, _arrow in (("→", "right"), ("←", "left"), ("↔", "leftright")):
    _GROUP_CHARS |= {(_char, "top"): rf"\over{_arrow}arrow", (_char, "bot"): rf"\x{_arrow}arrow"}
# The arguments of each structure; `e` of the others.
_ARGUMENTS = {"f": "num den", "func": "fName e", "limLow": "e lim", "limUpp": "e lim", "m": "mr", "nary": "sub sup e"}
_ARGUMENTS |= {"rad": "deg e", "sPre": "sub sup e", "sSub": "e sub", "sSubSup": "e sub sup", "sSup": "e sup"}


def omml(element: _Element) -> str:
    r"""Return an m:oMath or m:oMathPara as LaTeX; the lines of an m:oMathPara are gathered, one below the other."""
    if len(_plain(element)) > MAX_CHARS:
        return _finish(_text(_plain(element)))
    lines = [child for child in element if _name(child) == "oMath"] or [element]
    rows = [[latex] for line in lines if (latex := _walk(line, 0).strip())]
    return _finish(_array(rows, "gathered") if len(rows) > 1 else "".join(rows[0]) if rows else "")


def _name(element: _Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _plain(element: _Element) -> str:
    return "".join(item.text or "" for item in element.iter("{*}t"))


def _value(element: _Element) -> str:
    """Return `m:val`; one of the words for no is "off", and none at all is yes."""
    value = next((str(value) for key, value in element.attrib.items() if str(key).rpartition("}")[2] == "val"), "")
    return "off" if value in {"0", "false"} else value


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
        known = _ARGUMENTS.get(name, "e").split()
        strays = [child for child in element if _name(child) not in known]
        return _join([_STRUCTURES[name](_Structure(element, depth)), *(_walk(child, depth + 1) for child in strays)])
    if name == "AlternateContent":  # the same again in an older form
        element = next((form for form in element if len(form)), element)
    return _join(_walk(child, depth + 1, aligned) for child in element)


def _run(run: _Element, aligned: bool) -> str:
    parts = (child for child in run if not _name(child).endswith("Pr"))
    text = "".join((part.text or "") if _name(part) == "t" else " " for part in parts)
    styles = {_name(style): _value(style) for child in run if _name(child) == "rPr" for style in child}
    if styles.get("nor", "off") != "off":
        return _text(text)
    font = _RUN_FONTS.get(styles.get("scr", "")) or _RUN_FONTS.get(styles.get("sty", ""), "")
    marks = {"&": "&", "#": r"\qquad "} if aligned else {}  # `#` sets the number of an equation apart
    return _join(marks.get(piece) or _math(piece, font) for piece in re.split("([&#])", text))


class _Structure(NamedTuple):
    """An OMML structure with its arguments and properties."""

    element: _Element
    depth: int

    def args(self, name: str = "e", aligned: bool = False) -> list[str]:
        """Return each argument called `name` as LaTeX."""
        found = (child for child in self.element if _name(child) == name)
        return [_join(_walk(child, self.depth + 1, aligned) for child in arg) for arg in found]

    def arg(self, name: str = "e") -> str:
        return _join(self.args(name))

    def property(self, name: str, default: str = "off") -> str:
        """Return a property's value, such as the character of an accent; `default` if the file says nothing of it."""
        properties = (item for child in self.element if _name(child).endswith("Pr") for item in child)
        return next((_value(item) for item in properties if _name(item) == name), default)

    def shown(self, name: str) -> str:
        return self.arg(name) if self.property(f"{name}Hide") == "off" else ""

    def accent(self) -> str:
        char = self.property("chr", "\u0302")
        return _accent(_ACCENTS[char], self.arg()) if char in _ACCENTS else _stacked(_math(char), self.arg())

    def group(self) -> str:
        char, position = self.property("chr", "⏟"), self.property("pos", "bot")
        if not char or (char, position) in _GROUP_CHARS:
            return f"{_GROUP_CHARS[char, position]}{{{self.arg()}}}" if char else self.arg()
        mark = {"⏜": r"\frown", "⏝": r"\smile"}.get(char) or _math(char)
        return _stacked(mark, self.arg()) if position == "top" else _stacked("", self.arg(), mark)

    def delimited(self) -> str:
        ends = (self.property("begChr", "("), self.property("endChr", ")"))
        left, right = (_DELIMITERS.get(char) or _math(char) for char in ends)
        mark = self.property("sepChr", "|")
        mark = r"\middle|" if mark == "|" else _math(mark)
        return _fence(left, right, _join(islice((part for body in self.args() for part in (mark, body)), 1, None)))

    def fraction(self) -> str:
        over, under, kind = self.arg("num"), self.arg("den"), self.property("type", "bar")
        if kind in {"lin", "skw"}:
            return "/".join(part if len(part) < 2 or part.isalnum() else f"{{{part}}}" for part in (over, under))
        return rf"{{{over}\atop {under}}}" if kind == "noBar" else rf"\frac{{{over}}}{{{under}}}"

    def function(self) -> str:
        name = self.arg("fName")
        plain = re.fullmatch(r"(?:\\mathrm\{)?([A-Za-z]{2,})\}?", name)
        return _join([rf"\operatorname{{{plain[1]}}}" if plain else name, self.arg()])

    def limit(self) -> str:
        base, lim, above = self.arg(), self.arg("lim"), _name(self.element) == "limUpp"
        if lim in {"⏟", "⏞"}:
            return rf"{_ACCENTS[lim]}{{{base}}}"
        if _LIMITS.fullmatch(base):
            return _script(base, "", lim) if above else _script(base, lim, "")
        return _stacked(lim, base) if above else _stacked("", base, lim)

    def matrix(self) -> str:
        return _array([_Structure(row, self.depth + 1).args() for row in self.element if _name(row) == "mr"], "matrix")

    def nary(self) -> str:
        return _join([_script(_math(self.property("chr", "∫")), self.shown("sub"), self.shown("sup")), self.arg()])


_STRUCTURES: dict[str, Callable[[_Structure], str]] = {
    "acc": _Structure.accent, "groupChr": _Structure.group, "d": _Structure.delimited, "f": _Structure.fraction,
    "func": _Structure.function, "limLow": _Structure.limit, "limUpp": _Structure.limit, "m": _Structure.matrix,
    "nary": _Structure.nary, "rad": lambda it: _root(it.shown("deg"), it.arg()),
    "bar": lambda it: _accent(r"\bar" if it.property("pos") == "top" else r"\underline", it.arg()),
    "eqArr": lambda it: _array([[row] for row in it.args(aligned=True)], "aligned"),
    "phant": lambda it: rf"\phantom{{{it.arg()}}}" if it.property("show", "on") == "off" else it.arg(),
    "borderBox": lambda it: rf"\boxed{{{it.arg()}}}",
    "sPre": lambda it: _join([_script("{}", it.arg("sub"), it.arg("sup")), it.arg()]),
} | dict.fromkeys(("sSub", "sSup", "sSubSup"), lambda it: _script(it.arg(), it.arg("sub"), it.arg("sup")))  # fmt: skip

# --- Hancom's script: words ---

_CASED = _table("""
    larrow:leftarrow rarrow:rightarrow uparrow downarrow lrarrow:leftrightarrow udarrow:updownarrow LARROW:Leftarrow
    RARROW:Rightarrow UPARROW:Uparrow DOWNARROW:Downarrow LRARROW:Leftrightarrow UDARROW:Updownarrow leftarrow
    rightarrow DEG:^{\\circ}
""")
_OPERATORS = _table("""
    times div divide:div cdot plusminus:pm pm minusplus:mp mp ast:* circ bullet star oplus ominus otimes odot oslash
    odiv:oslash dsum:dotplus setminus cap cup smallinter:cap smallunion:cup uplus sqcap sqcup vee wedge lor:vee
    land:wedge xor:veebar leq le:leq geq ge:geq ne:neq neq nequiv:not\\equiv sim approx simeq cong equiv asymp iso:cong
    doteq propto ll gg lll ggg prec succ in notin owns:ni ni subset supset superset:supset subseteq supseteq sqsubset
    sqsupset sqsubseteq sqsupseteq parallel perp bot:perp vdash assert:vdash dashv hleft:vdash models mapsto nwarrow
    nearrow searrow swarrow hookleft:hookleftarrow hookright:hookrightarrow slash:/ lslant:/ rslant:setminus
    identical::: +-:pm -+:mp <=:leq >=:geq !=:neq ==:equiv <<:ll >>:gg <<<:lll >>>:ggg ->:rightarrow <-:leftarrow
    <->:leftrightarrow =>:Rightarrow <=>:Leftrightarrow
""") | {mark: mark for mark in "=+-<>,;:/*"}
_SYMBOLS = _table("""
    inf:infty infinity:infty infty prime:' partial nabla grad:nabla del:nabla laplace:mathcal{L} therefore because
    exist:exists exists forall lnot:neg neg emptyset top angle msangle:measuredangle sangle:sphericalangle
    rtangle:{\\llcorner} triangle triangleu:triangle triangled:triangledown trianglel:triangleleft
    triangler:triangleright diamond bigcirc aleph hbar imath jmath ohm:Omega mho ell liter:ell wp imag:Im image:Im
    real:Re reimage:Re angstrom:mathring{A} dagger ddagger cdots ldots vdots ddots ...:ldots
    centigrade:^{\\circ}\\mathrm{C} fahrenheit:^{\\circ}\\mathrm{F} hund:text{‰} thou:text{‱} att:text{※} well:\\#
    base:square benzene:text{◎} backslash vert:| line:| dline:\\| ||:\\| lbrace:\\{ rbrace:\\} lbrack:[ rbrack:]
    lparen:( rparen:) langle rangle lceil rceil lfloor rfloor if:text{if} for:text{for} and:text{and} or:text{or}
    def:text{def} %:\\% ~:\\; `:\\,
""")
_BIG = _table("""
    sum smallsum:sum prod smallprod:prod coprod smcoprod:coprod int smallint:int dint:iint iint tint:iiint iiint oint
    smalloint:oint odint:oiint otint:oiiint union:bigcup inter:bigcap bigcup bigcap bigsqcup bigsqcap:sqcap bigoplus
    bigominus:ominus bigotimes bigodot bigodiv:oslash biguplus bigvee bigwedge lim max min
""")
_MARKS = _table("""
    acute grave dot ddot dddot hat check breve tilde bar vec overline underline under:underline dyad:overleftrightarrow
    box:boxed overbrace underbrace phantom
""")
_TABLES = {"matrix": "matrix", "pmatrix": "pmatrix", "bmatrix": "bmatrix", "dmatrix": "vmatrix", "cases": "cases"}
_TABLES |= {"eqalign": "aligned", "lpile": "array}{l", "rpile": "array}{r"}
_TABLES |= dict.fromkeys(("pile", "cpile", "col", "ccol", "lcol", "rcol"), "matrix")
_TABLES |= dict.fromkeys(("ladder", "sladder"), "array}{r|")
_SCRIPTS = {"^": "^", "sup": "^", "_": "_", "sub": "_", "from": "_", "to": "^", "lsub": "_", "lsup": "^"}
_OTHERS = _table(
    "over atop choose binom sqrt root of left right not rel buildrel arch longdiv color scale bigg big { }"
)
_GREEK = _table("""
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi
    psi omega
""") | {"omicron": "o"}
_GREEK |= {name.title(): _UNICODE[char] for name, char in zip(_GREEK, "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ", strict=True)}
_GREEK |= _table("varepsilon vartheta varpi varrho varsigma varphi varupsilon:Upsilon")
_LATEX = _FUNCTIONS | _BIG | _SYMBOLS | _OPERATORS | _CASED | _GREEK | {"{": ""}
_FONT_WORDS = {"rm": "mathrm", "bold": "mathbf", "it": "", "mit": ""}
_WORDS = frozenset({*_LATEX, *_MARKS, *_TABLES, *_SCRIPTS, *_OTHERS, *_FONT_WORDS, *"([&#"})
# Words that the editor also finds where a letter follows: `timesm`, `sinx`, `rmCa`; not those that begin other words.
_GLUED = frozenset(_table("""
    times div cdot cdots ldots sim leq geq neq approx equiv cong simeq prime therefore because angle triangle partial
    nabla sqrt over sum int prod sin cos tan cot sec csc log ln lim exp rm bold
""")) | {name.lower() for name in _GREEK if len(name) > 2}  # fmt: skip
_FENCES = frozenset(_table("""
    ( ) [ ] { } | || < > / . lbrace rbrace lbrack rbrack lparen rparen langle rangle lceil rceil lfloor rfloor vert line
    dline uparrow downarrow udarrow
"""))  # fmt: skip
_TOKEN = re.compile(
    r"""(\s*)(?:"(?P<quoted>[^"]*)"?|(?P<text>[^\W\d_A-Za-z]+(?:[~`\s]+[^\W\d_A-Za-z]+)*)|\\?(?P<word>[A-Za-z]+)"""
    r"""|(?P<mark>\d+(?:\.\d+)?|<->|<=>|<<<|>>>|->|<-|<=|>=|!=|==|=>|\+-|-\+|<<|>>|\|\||\.{3}|[~`]+|.))""",
    re.DOTALL,
)


class _Token(NamedTuple):
    """`text` as written; `word` if it is one of Hancom's, `"` if quoted; `spaced`: a blank goes before; its font."""

    text: str
    word: str
    spaced: bool
    font: str = ""


def _word(text: str) -> str:
    """`TIMES`, `Times` -> `times`; `ALPHA` -> `Alpha`; `LARROW` stays; "" for what is no word of Hancom's."""
    if text in _WORDS or not (text.islower() or text.isupper() or text.istitle()):
        return text if text in _WORDS else ""
    greek = text.capitalize()
    return greek if greek in _GREEK else text.lower() if text.lower() in _WORDS else ""


def _split(text: str) -> list[str]:
    """`timesm` -> `times`, `m`; `cdotscdots` -> `cdots`, `cdots`; `house` -> `house`."""
    parts, rest = list[str](), text
    while len(text) < 60 and not _word(rest):
        found = next((rest[:n] for n in range(min(len(rest), 10) - 1, 1, -1) if rest[:n].lower() in _GLUED), "")
        found = "it" if re.fullmatch("it(?:aq|[a-z])", rest) else found if _word(found) else ""
        if not found:
            break
        parts.append(found)
        rest = rest[len(found) :]
    whole = not parts or _word(rest) or len(rest) == 1 or rest.isupper() or parts[-1] in _FONT_WORDS
    return [*parts, rest] if whole else [text]


def _tokens(script: str) -> list[_Token]:
    """Cut a script into words, numbers, marks and texts; font words (`rm`) last to the end of their group."""
    tokens, fonts, spaced = list[_Token](), [""], False
    for match in _TOKEN.finditer(re.sub(r"\^(\w+?)sqrt", r" root {\1} of ", script, flags=re.IGNORECASE).rstrip()):
        spaced = bool(match[1]) or spaced
        if match["quoted"] is not None:
            tokens.append(_Token(match["quoted"], '"', spaced))
            spaced = False
        for text in _split(match["word"]) if match["word"] else [match["mark"] or match["text"] or ""]:
            word = "~" if "~" in text[:1] + text[-1:] else _word(text[:1] if text[:1] == "`" else text)
            fonts += fonts[-1:] if word == "{" else []
            if word == "}" and len(fonts) > 1:
                fonts.pop()
            if word in _FONT_WORDS:
                fonts[-1] = _FONT_WORDS[word]
            elif text:
                tokens.append(_Token(re.sub(r"[~`\s]+", " ", text), word, spaced, fonts[-1]))
                spaced = False
    return tokens


# --- Hancom's script: grammar ---

_SIGNS = frozenset({"-", "+", "+-", "-+"})
_ENDS = frozenset({"right", "}", "&", "#", "end"})  # of a cell
_TERM_ENDS = frozenset({*_OPERATORS, *_CASED, "~", "`", "over", "atop", "choose"}) - {"DEG"}
_NEGATED = {"=": r"\neq", r"\in": r"\notin", "<": r"\nless", ">": r"\ngtr"}


class _Item(NamedTuple):
    """What stands in a row; no term extends beyond one that is `closed`: a group, an operator, a blank."""

    latex: str
    spaced: bool
    closed: bool


class _Parser:
    """Reads tokens, each of them once; beyond MAX_DEPTH structures are read as the words they are made of."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = [*tokens, _Token("", "end", False)]
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def whole(self) -> str:
        pieces = [self.block()]
        while self.token.word != "end":  # at a `}` or a `right` without a partner
            if self.take().word == "right" and (mark := self.delimiter()) != ".":
                pieces.append(mark)
            pieces.append(self.block())
        return _join(pieces)

    def block(self) -> str:
        rows = self.rows()
        return _array(rows, "aligned") if len(rows) > 1 or len(rows[0]) > 1 else rows[0][0]

    def rows(self) -> list[list[str]]:
        rows = [[self.row()]]
        while self.token.word in {"&", "#"}:
            rows += [[]] if self.take().word == "#" else []
            rows[-1].append(self.row())
        return rows

    def group(self) -> str:
        latex = self.block()
        self.at += self.token.word == "}"
        return latex

    def table(self, name: str) -> str:
        self.at += 1
        rows = self.rows()
        self.at += self.token.word == "}"
        return _array(rows, name + "r" * (max(map(len, rows)) - 1) if "|" in name else name)

    def row(self, bracket: bool = False) -> str:
        """Read terms up to the end of the cell; in a bracket, up to what closes it."""
        items: list[_Item] = []
        while self.token.word not in _ENDS and not (bracket and self.token.text in {")", "]"}):
            if self.token.word in {"over", "atop", "choose"}:
                items.append(self.fraction(items))
            elif self.token.word in _SCRIPTS and self.token.word != "to":  # `to` belongs to a `from`, or is a word
                item = items.pop() if items else _Item("", False, False)
                items.append(item._replace(latex=self.scripts(item.latex, "")))
            else:
                items.append(self.item())
        pairs = pairwise([_Item("{", False, False), *items])
        return _join(" " * (b.spaced and (a.latex[-1:] + b.latex[:1]).isalnum()) + b.latex for a, b in pairs)

    def fraction(self, items: list[_Item]) -> _Item:
        """Take the term before `over` out of `items`, and read the one behind: `x=2a over 3b` -> 2a, 3b."""
        word, start = self.take().word, len(items)
        while start > 0 and not (items[start - 1].closed if start < len(items) else items[-1].latex in _SIGNS):
            start -= 1
            if items[start].spaced or items[start].closed:
                break
        over, spaced = _join(item.latex for item in items[start:]), start == len(items) or items[start].spaced
        del items[start:]
        parts = [_LATEX[self.take().word]] if self.token.word in _SIGNS else []
        while self.token.word not in _ENDS and self.token.text not in {")", "]"}:
            item = self.item()
            parts.append(item.latex)
            if item.closed or self.token.spaced or self.token.word in _TERM_ENDS or self.token.word == "{":
                break
        under = _join(parts)
        latex = rf"{{{over}\atop {under}}}" if word == "atop" else rf"{{{over}}}{{{under}}}"
        return _Item({"over": r"\frac", "choose": r"\binom"}.get(word, "") + latex, spaced, False)

    def item(self) -> _Item:
        """Read one factor with its scripts."""
        token, latex = self.token, self.factor()
        if token.word == "{" and len(latex) > 1 and self.token.word in _SCRIPTS:
            latex = f"{{{latex}}}"
        return _Item(self.scripts(latex, token.word), token.spaced, token.word == "{" or token.word in _TERM_ENDS)

    def scripts(self, base: str, of: str) -> str:
        """Attach the scripts that follow; the lower limit of a big operator may be `k=1` without braces."""
        marks, left, last, done = {"_": "", "^": ""}, "", "", list[str]()
        while (word := self.token.word) in _SCRIPTS and (word != "to" or last == "from"):
            self.at += 1
            mark, last = _SCRIPTS[word], word
            value = [_LATEX[self.take().word]] if self.token.word in _SIGNS else []
            value.append(self.factor())
            while of in _BIG and mark == "_" and self.token.word in _TERM_ENDS and not self.token.spaced:
                value += [_LATEX.get(self.take().word, ""), self.factor()]
            if word in {"lsub", "lsup"}:
                left += f"{mark}{{{_join(value)}}}"
                continue
            if marks[mark]:  # LaTeX takes one of a kind
                done.append(_script(base, marks["_"], marks["^"]))
                base, marks = "{}", {"_": "", "^": ""}
            marks[mark] = _join(value)
        latex = _join([*done, _script(base, marks["_"], marks["^"]) if any(marks.values()) else base])
        return _join(["{}" + left, latex]) if left else latex

    def factor(self) -> str:
        """Read a word, a number, a group, or a structure with its arguments; nothing at the end of the cell."""
        if self.token.word in _ENDS:
            return ""
        token, self.depth = self.take(), self.depth + 1
        latex = self.structure(token) if self.depth <= MAX_DEPTH else self.leaf(token)
        self.depth -= 1
        return latex

    def structure(self, token: _Token) -> str:
        word = token.word
        if word in _PARTS:
            return _PARTS[word](self)
        if word in _MARKS:
            return _accent(_MARKS[word], self.factor())
        if word in _TABLES and self.token.word == "{":
            return self.table(_TABLES[word])
        if word in {"union", "inter"} and self.token.word not in _SCRIPTS:
            return r"\cup" if word == "union" else r"\cap"
        return self.leaf(token)

    def leaf(self, token: _Token) -> str:
        if token.word == '"':
            return _text(token.text)
        latex = _LATEX.get(token.word)
        if latex is None:
            return _math(token.text, token.font)
        return rf"\boldsymbol{{{latex}}}" if token.font == "mathbf" and token.word in _GREEK else latex

    def bracket(self) -> str:
        left, body = self.tokens[self.at - 1].text, self.row(bracket=True)
        return _fence(left, self.take().text, body) if self.token.text in {")", "]"} else _join([left, body])

    def fence(self) -> str:
        left, body = self.delimiter(), self.block()
        self.at += (closed := self.token.word == "right")
        return _fence(left, self.delimiter() if closed else ".", body)

    def delimiter(self) -> str:
        text = self.token.text.lower()
        if text not in _FENCES or self.token.word == '"':
            return "."
        self.at += 1
        return _DELIMITERS.get(text) or _LATEX.get(text) or text

    def root(self) -> str:
        """`root 3 of x`; without `of`, a square root."""
        body = self.item().latex
        self.at += (higher := self.token.word == "of")
        return _root(body, self.item().latex) if higher else _root("", body)

    def division(self) -> str:
        divisor, quotient, rest = self.factor(), self.factor(), self.factor()
        return _array([[quotient], [rf"{divisor}\overline{{){rest}}}"]], "array}{r")


_PARTS: dict[str, Callable[[_Parser], str]] = {
    "{": _Parser.group, "(": _Parser.bracket, "[": _Parser.bracket, "left": _Parser.fence, "sqrt": _Parser.root,
    "root": _Parser.root, "longdiv": _Parser.division,
    "not": lambda it: _NEGATED.get(latex := it.factor()) or _join([r"\not", latex]),
    "rel": lambda it: _stacked(body=it.factor(), over=it.factor(), under=it.factor()),
    "buildrel": lambda it: _stacked(body=it.factor(), over=it.factor()),
    "bigg": lambda it: rf"\bigg{mark}" if (mark := it.delimiter()) != "." else it.factor(),
    "big": lambda it: rf"\big{mark}" if (mark := it.delimiter()) != "." else it.factor(),
    "arch": lambda it: _stacked(r"\frown", it.factor()),
    "binom": lambda it: rf"\binom{{{it.factor()}}}{{{it.factor()}}}",
} | dict.fromkeys(("color", "scale"), lambda it: (it.factor(), it.factor())[1])  # fmt: skip


def hancom(script: str) -> str:
    """Return a script of Hangul's equation editor as LaTeX."""
    if len(script) > MAX_CHARS:
        return _finish(_text(re.sub(r"[{}\s]+", " ", script)))
    return _finish(_Parser(_tokens(script)).whole())
