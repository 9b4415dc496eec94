"""equations.py: Word's and Hangul's equations become LaTeX, none is lost, none takes long."""

# ruff: noqa: E501
from __future__ import annotations

import random
import time

import pytest
from lxml import etree

from seoga.chunks import _equations
from seoga.equations import hancom, omml
from seoga.office import equation

MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def read(inside: str, space: str = MATH) -> str:
    return omml(etree.fromstring(f'<m:oMath xmlns:m="{space}" xmlns:w="{WORD}">{inside}</m:oMath>'))


def r(text: str, properties: str = "") -> str:
    return f"<m:r>{properties}<m:t>{text}</m:t></m:r>"


def e(inside: str) -> str:
    return f"<m:e>{inside}</m:e>"


# fmt: off
OMML = [
    ('<m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>c</m:t></m:r></m:den></m:f>',
     '\\frac{a+b}{c}'),
    ("<m:f><m:fPr><m:type m:val='skw'/></m:fPr><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>",
     '1/2'),
    ("<m:f><m:fPr><m:type m:val='lin'/></m:fPr><m:num><m:r><m:t>x+1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>",
     '{x+1}/2'),
    ("<m:d><m:e><m:f><m:fPr><m:type m:val='noBar'/></m:fPr><m:num><m:r><m:t>n</m:t></m:r></m:num><m:den><m:r><m:t>k</m:t></m:r></m:den></m:f></m:e></m:d>",
     '\\binom{n}{k}'),
    ('<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>',
     'x^{2}'),
    ('<m:sSub><m:e><m:r><m:t>a</m:t></m:r></m:e><m:sub><m:r><m:t>ij</m:t></m:r></m:sub></m:sSub>',
     'a_{ij}'),
    ('<m:sSubSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sub><m:r><m:t>i</m:t></m:r></m:sub><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSubSup>',
     'x_{i}^{2}'),
    ('<m:sPre><m:sub><m:r><m:t>6</m:t></m:r></m:sub><m:sup><m:r><m:t>14</m:t></m:r></m:sup><m:e><m:r><m:t>C</m:t></m:r></m:e></m:sPre>',
     '{}_{6}^{14}C'),
    ("<m:rad><m:radPr><m:degHide m:val='1'/></m:radPr><m:deg/><m:e><m:r><m:t>x</m:t></m:r></m:e></m:rad>",
     '\\sqrt{x}'),
    ('<m:rad><m:deg><m:r><m:t>3</m:t></m:r></m:deg><m:e><m:r><m:t>x+1</m:t></m:r></m:e></m:rad>',
     '\\sqrt[3]{x+1}'),
    ('<m:nary><m:sub><m:r><m:t>0</m:t></m:r></m:sub><m:sup><m:r><m:t>1</m:t></m:r></m:sup><m:e><m:r><m:t>f(x)dx</m:t></m:r></m:e></m:nary>',
     '\\int_{0}^{1}f(x)dx'),
    ("<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub><m:r><m:t>i=1</m:t></m:r></m:sub><m:sup><m:r><m:t>n</m:t></m:r></m:sup><m:e><m:r><m:t>i</m:t></m:r></m:e></m:nary>",
     '\\sum_{i=1}^{n}i'),
    ("<m:nary><m:naryPr><m:chr m:val='∑'/><m:subHide m:val='1'/><m:supHide m:val='1'/></m:naryPr><m:sub/><m:sup/><m:e><m:r><m:t>x</m:t></m:r></m:e></m:nary>",
     '\\sum x'),
    ("<m:nary><m:naryPr><m:limLoc m:val='undOvr'/></m:naryPr><m:sub><m:r><m:t>D</m:t></m:r></m:sub><m:sup/><m:e><m:r><m:t>f</m:t></m:r></m:e></m:nary>",
     '\\int_{D}f'),
    ('<m:d><m:e><m:r><m:t>x</m:t></m:r></m:e></m:d>',
     '(x)'),
    ("<m:d><m:dPr><m:begChr m:val='['/><m:endChr m:val='['/></m:dPr><m:e><m:r><m:t>x</m:t></m:r></m:e></m:d>",
     '\\lbrack x\\lbrack'),
    ("<m:d><m:dPr><m:begChr m:val='{'/><m:sepChr m:val='|'/><m:endChr m:val='}'/></m:dPr><m:e><m:r><m:t>x</m:t></m:r></m:e><m:e><m:r><m:t>y</m:t></m:r></m:e></m:d>",
     '\\left\\{x\\middle|y\\right\\}'),
    ("<m:d><m:dPr><m:begChr m:val='|'/><m:endChr m:val='|'/></m:dPr><m:e><m:r><m:t>x</m:t></m:r></m:e></m:d>",
     '|x|'),
    ("<m:d><m:dPr><m:begChr m:val='‖'/><m:endChr m:val='‖'/></m:dPr><m:e><m:r><m:t>x</m:t></m:r></m:e></m:d>",
     '\\|x\\|'),
    ("<m:d><m:dPr><m:begChr m:val='⌊'/><m:endChr m:val='⌋'/></m:dPr><m:e><m:r><m:t>x</m:t></m:r></m:e></m:d>",
     '\\lfloor x\\rfloor'),
    ("<m:d><m:dPr><m:begChr m:val='{'/><m:endChr m:val=''/></m:dPr><m:e><m:eqArr><m:e><m:r><m:t>1</m:t></m:r></m:e><m:e><m:r><m:t>0</m:t></m:r></m:e></m:eqArr></m:e></m:d>",
     '\\begin{cases}1\\\\0\\end{cases}'),
    ('<m:eqArr><m:e><m:r><m:t>a&amp;=b</m:t></m:r></m:e><m:e><m:r><m:t>c&amp;=d</m:t></m:r></m:e></m:eqArr>',
     '\\begin{aligned}a&=b\\\\c&=d\\end{aligned}'),
    ('<m:m><m:mr><m:e><m:r><m:t>1</m:t></m:r></m:e><m:e><m:r><m:t>2</m:t></m:r></m:e></m:mr><m:mr><m:e><m:r><m:t>3</m:t></m:r></m:e><m:e><m:r><m:t>4</m:t></m:r></m:e></m:mr></m:m>',
     '\\begin{matrix}1&2\\\\3&4\\end{matrix}'),
    ('<m:d><m:e><m:m><m:mr><m:e><m:r><m:t>1</m:t></m:r></m:e><m:e><m:r><m:t>2</m:t></m:r></m:e></m:mr><m:mr><m:e><m:r><m:t>3</m:t></m:r></m:e><m:e><m:r><m:t>4</m:t></m:r></m:e></m:mr></m:m></m:e></m:d>',
     '\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}'),
    ("<m:d><m:dPr><m:begChr m:val='['/><m:endChr m:val=']'/></m:dPr><m:e><m:m><m:mr><m:e><m:r><m:t>1</m:t></m:r></m:e></m:mr></m:m></m:e></m:d>",
     '\\begin{bmatrix}1\\end{bmatrix}'),
    ("<m:d><m:dPr><m:begChr m:val='|'/><m:endChr m:val='|'/></m:dPr><m:e><m:m><m:mr><m:e><m:r><m:t>1</m:t></m:r></m:e></m:mr></m:m></m:e></m:d>",
     '\\begin{vmatrix}1\\end{vmatrix}'),
    ('<m:func><m:fName><m:r><m:t>sin</m:t></m:r></m:fName><m:e><m:r><m:t>x</m:t></m:r></m:e></m:func>',
     '\\sin x'),
    ('<m:func><m:fName><m:limLow><m:e><m:r><m:t>lim</m:t></m:r></m:e><m:lim><m:r><m:t>x→0</m:t></m:r></m:lim></m:limLow></m:fName><m:e><m:r><m:t>f(x)</m:t></m:r></m:e></m:func>',
     '\\lim_{x\\rightarrow0}f(x)'),
    ('<m:limUpp><m:e><m:r><m:t>=</m:t></m:r></m:e><m:lim><m:r><m:t>def</m:t></m:r></m:lim></m:limUpp>',
     '\\overset{def}{=}'),
    ('<m:acc><m:e><m:r><m:t>x</m:t></m:r></m:e></m:acc>',
     '\\hat{x}'),
    ("<m:acc><m:accPr><m:chr m:val='⃗'/></m:accPr><m:e><m:r><m:t>v</m:t></m:r></m:e></m:acc>",
     '\\vec{v}'),
    ("<m:acc><m:accPr><m:chr m:val='̃'/></m:accPr><m:e><m:r><m:t>x</m:t></m:r></m:e></m:acc>",
     '\\tilde{x}'),
    ("<m:acc><m:accPr><m:chr m:val='̇'/></m:accPr><m:e><m:r><m:t>x</m:t></m:r></m:e></m:acc>",
     '\\dot{x}'),
    ("<m:acc><m:accPr><m:chr m:val='̈'/></m:accPr><m:e><m:r><m:t>x</m:t></m:r></m:e></m:acc>",
     '\\ddot{x}'),
    ("<m:bar><m:barPr><m:pos m:val='top'/></m:barPr><m:e><m:r><m:t>AB</m:t></m:r></m:e></m:bar>",
     '\\overline{AB}'),
    ('<m:bar><m:e><m:r><m:t>x</m:t></m:r></m:e></m:bar>',
     '\\underline{x}'),
    ('<m:box><m:e><m:r><m:t>x</m:t></m:r></m:e></m:box>',
     'x'),
    ('<m:borderBox><m:e><m:r><m:t>x</m:t></m:r></m:e></m:borderBox>',
     '\\boxed{x}'),
    ('<m:groupChr><m:e><m:r><m:t>a+b</m:t></m:r></m:e></m:groupChr>',
     '\\underbrace{a+b}'),
    ("<m:groupChr><m:groupChrPr><m:chr m:val='⏞'/><m:pos m:val='top'/></m:groupChrPr><m:e><m:r><m:t>a+b</m:t></m:r></m:e></m:groupChr>",
     '\\overbrace{a+b}'),
    ('<m:phant><m:e><m:r><m:t>x</m:t></m:r></m:e></m:phant>',
     'x'),
    ('<m:r><m:t>αβγΓπω</m:t></m:r>',
     '\\alpha\\beta\\gamma\\Gamma\\pi\\omega'),
    ('<m:r><m:t>a≤b≠c∈A⊂B∪C∞∂∇×÷±→⇒∀∃</m:t></m:r>',
     'a\\leq b\\neq c\\in A\\subset B\\cup C\\infty\\partial\\nabla\\times\\div\\pm\\rightarrow\\Rightarrow\\forall\\exists'),
    ('<m:r><m:t>속도</m:t></m:r><m:r><m:t>=v</m:t></m:r>',
     '\\text{속도}=v'),
    ('<m:r><m:rPr><m:nor/></m:rPr><m:t>if x</m:t></m:r>',
     '\\text{if x}'),
    ('<m:r><m:rPr><m:sty m:val="p"/></m:rPr><m:t>d</m:t></m:r>',
     '\\mathrm{d}'),
    ('<m:r><m:rPr><m:scr m:val="double-struck"/></m:rPr><m:t>R</m:t></m:r>',
     '\\mathbb{R}'),
    ('<m:r><m:rPr><m:scr m:val="script"/></m:rPr><m:t>L</m:t></m:r>',
     '\\mathcal{L}'),
    ('<m:r><m:rPr><m:scr m:val="fraktur"/></m:rPr><m:t>g</m:t></m:r>',
     '\\mathfrak{g}'),
    ('<m:r><m:rPr><m:sty m:val="b"/></m:rPr><m:t>v</m:t></m:r>',
     '\\mathbf{v}'),
    ('<m:r><m:t>𝑥𝐀ℝ𝔤</m:t></m:r>',
     'x\\mathbf{A}\\mathbb{R}\\mathfrak{g}'),
    ('<m:r><m:t>50%&amp;#_$</m:t></m:r>',
     '50\\%\\&\\#\\_\\$'),
    ('<w:del><m:r><m:t>old</m:t></m:r></w:del><m:r><m:t>new</m:t></m:r>',
     'new'),
    ('<w:ins><m:r><m:t>new</m:t></m:r></w:ins>',
     'new'),
    ('<m:novel><m:e><m:r><m:t>x+y</m:t></m:r></m:e></m:novel>',
     'x+y'),
    ('',
     ''),
]
HANCOM = [
    ('{a+b} over {c+d}', '\\frac{a+b}{c+d}'),
    ('1 over 2', '\\frac{1}{2}'),
    ('2over3', '\\frac{2}{3}'),
    ('x^2', 'x^{2}'),
    ('x^{2y}', 'x^{2y}'),
    ('a_i ^2', 'a_{i}^{2}'),
    ('a_{ij}^{n+1}', 'a_{ij}^{n+1}'),
    ('x^2y', 'x^{2}y'),
    ('x sub 1 sup 2', 'x_{1}^{2}'),
    ('sqrt x', '\\sqrt{x}'),
    ('sqrt {x^2 + y^2}', '\\sqrt{x^{2}+y^{2}}'),
    ('root 3 of {x+1}', '\\sqrt[3]{x+1}'),
    ('root {n} of x', '\\sqrt[n]{x}'),
    ('n atop k', '{n\\atop k}'),
    ('int _0 ^1 f(x) dx', '\\int_{0}^{1}f(x)dx'),
    ('int_{0}^{1} {x^2 dx}', '\\int_{0}^{1}x^{2}dx'),
    ('iint', '\\iint'),
    ('oint_C', '\\oint_{C}'),
    ('sum _{i=1} ^n i^2', '\\sum_{i=1}^{n}i^{2}'),
    ('sum from {k=1} to n k', '\\sum_{k=1}^{n}k'),
    ('prod _{i=1} ^{n} a_i', '\\prod_{i=1}^{n}a_{i}'),
    ('lim _{x -> 0} {sin x} over x', '\\lim_{x\\rightarrow 0}\\frac{\\sin x}{x}'),
    ('lim from {x rarrow 0} f(x)', '\\lim_{x\\rightarrow 0}f(x)'),
    ('left ( {1 over 2} right )', '\\left(\\frac{1}{2}\\right)'),
    ('left [ x right ]', '[x]'),
    ('left lbrace x right rbrace', '\\{x\\}'),
    ('left | x right |', '|x|'),
    ('left ( x right .', '\\left(x\\right.'),
    ('matrix {a & b # c & d}', '\\begin{matrix}a&b\\\\c&d\\end{matrix}'),
    ('pmatrix {a & b # c & d}', '\\begin{pmatrix}a&b\\\\c&d\\end{pmatrix}'),
    ('bmatrix {1&0#0&1}', '\\begin{bmatrix}1&0\\\\0&1\\end{bmatrix}'),
    ('dmatrix{a&b#c&d}', '\\begin{vmatrix}a&b\\\\c&d\\end{vmatrix}'),
    ('cases {1 & x>0 # 0 & x<=0}', '\\begin{cases}1&x>0\\\\0&x\\leq0\\end{cases}'),
    ('eqalign {a &= b # c &= d}', '\\begin{aligned}a&=b\\\\c&=d\\end{aligned}'),
    ('pile {a # b}', '\\begin{matrix}a\\\\b\\end{matrix}'),
    ('bar x', '\\bar{x}'),
    ('bar {AB}', '\\overline{AB}'),
    ('vec v', '\\vec{v}'),
    ('hat x', '\\hat{x}'),
    ('tilde x', '\\tilde{x}'),
    ('dot x', '\\dot{x}'),
    ('ddot x', '\\ddot{x}'),
    ('acute a', '\\acute{a}'),
    ('grave a', '\\grave{a}'),
    ('check a', '\\check{a}'),
    ('arch AB', '\\overset{\\frown}{AB}'),
    ('dyad A', '\\overleftrightarrow{A}'),
    ('under x', '\\underline{x}'),
    ('overline {AB}', '\\overline{AB}'),
    ('underline x', '\\underline{x}'),
    ('not =', '\\neq'),
    ('ALPHA BETA GAMMA', 'A B\\Gamma'),
    ('alpha beta gamma', '\\alpha\\beta\\gamma'),
    ('Alpha', 'A'),
    ('theta vartheta phi varphi', '\\theta\\vartheta\\phi\\varphi'),
    ('OMEGA omega', '\\Omega\\omega'),
    ('x times y', 'x\\times y'),
    ('x div y', 'x\\div y'),
    ('x cdot y', 'x\\cdot y'),
    ('+- x', '\\pm x'),
    ('-+ x', '\\mp x'),
    ('pm x', '\\pm x'),
    ('x <= y', 'x\\leq y'),
    ('x >= y', 'x\\geq y'),
    ('x leq y geq z', 'x\\leq y\\geq z'),
    ('x != y', 'x\\neq y'),
    ('x neq y', 'x\\neq y'),
    ('x approx y', 'x\\approx y'),
    ('x cong y', 'x\\cong y'),
    ('x equiv y', 'x\\equiv y'),
    ('x propto y', 'x\\propto y'),
    ('therefore x', '\\therefore x'),
    ('because x', '\\because x'),
    ('inf', '\\infty'),
    ('infty', '\\infty'),
    ('partial x', '\\partial x'),
    ('nabla f', '\\nabla f'),
    ('x in A', 'x\\in A'),
    ('A owns x', 'A\\ni x'),
    ('A subset B', 'A\\subset B'),
    ('A supset B', 'A\\supset B'),
    ('A subseteq B', 'A\\subseteq B'),
    ('A supseteq B', 'A\\supseteq B'),
    ('A cup B cap C', 'A\\cup B\\cap C'),
    ('A union B inter C', 'A\\cup B\\cap C'),
    ('forall x exist y', '\\forall x\\exists y'),
    ('emptyset', '\\emptyset'),
    ('angle A', '\\angle A'),
    ('triangle ABC', '\\triangle ABC'),
    ('f prime', "f'"),
    ('cdots', '\\cdots'),
    ('ldots', '\\ldots'),
    ('vdots', '\\vdots'),
    ('ddots', '\\ddots'),
    ('30 DEG', '30^{\\circ}'),
    ('hbar', '\\hbar'),
    ('aleph', '\\aleph'),
    ('larrow rarrow lrarrow', '\\leftarrow\\rightarrow\\leftrightarrow'),
    ('uparrow downarrow', '\\uparrow\\downarrow'),
    ('LARROW RARROW LRARROW', '\\Leftarrow\\Rightarrow\\Leftrightarrow'),
    ('x -> y', 'x\\rightarrow y'),
    ('mapsto', '\\mapsto'),
    ('sin x cos y tan z', '\\sin x\\cos y\\tan z'),
    ('log _2 x', '\\log_{2}x'),
    ('ln x', '\\ln x'),
    ('exp x', '\\exp x'),
    ('max min det gcd', '\\max\\min\\det\\gcd'),
    ('arcsin x', '\\arcsin x'),
    ('rm kg', '\\mathrm{kg}'),
    ('it x', 'x'),
    ('bold v', '\\mathbf{v}'),
    ('"속도" = v', '\\text{속도}=v'),
    ('속도 = 거리 over 시간', '\\text{속도}=\\frac{\\text{거리}}{\\text{시간}}'),
    ('a ~ b', 'a\\;b'),
    ('a ` b', 'a\\,b'),
    ('a # b', '\\begin{aligned}a\\\\b\\end{aligned}'),
    ('LSUB 6 LSUP 14 C', '{}_{6}^{14}C'),
    ('rel <-> {a} {b}', '\\xleftrightarrow[{b}]{a}'),
    ('buildrel a over b', '\\overset{over}{a}b'),
    ('bigg ( x bigg )', '\\bigg(x\\bigg)'),
    ('color {255,0,0} x', 'x'),
    ('H _2 O', 'H_{2}O'),
    ('E=mc^2', 'E=mc^{2}'),
    ('x = {-b +- sqrt{b^2 -4ac}} over {2a}', 'x=\\frac{-b\\pm\\sqrt{b^{2}-4ac}}{2a}'),
    ('50%', '50\\%'),
    ('a_1,a_2,cdots,a_n', 'a_{1},a_{2},\\cdots,a_{n}'),
    ('left . {df} over {dx} right | _{x=0}', '\\left.\\frac{df}{dx}\\right|_{x=0}'),
    ('{ { a', 'a'),
    ('a over over b', '\\frac{a}{over}b'),
    ('} x', 'x'),
    ('left ( matrix {1 & 2', '\\left(\\begin{matrix}1&2\\end{matrix}\\right.'),
    ('over', '\\frac{}{}'),
]
# fmt: on

BRACED = f"<m:groupChr>{e(r('ab'))}</m:groupChr>"
X_1 = f"<m:sSub>{e(r('x'))}<m:sub>{r('1')}</m:sub></m:sSub>"
TEXTS = [  # a run's text, or one structure around x
    (r("x² y₁ z⁻¹ aₙ"), r"x^{2} y_{1} z^{-1} a_{n}"), (r("f′(x)"), "f'(x)"), (r("90° 25℃"), r"90^{\circ} 25^{\circ}\mathrm{C}"),
    (r("𝟏𝛂𝓛𝕏𝖠𝚊"), r"\mathbf{1}\boldsymbol{\alpha}\mathcal{L}\mathbb{X}\mathsf{A}\mathtt{a}"), (r("ϵεφϕϑϱς"), r"\epsilon\varepsilon\varphi\phi\vartheta\varrho\varsigma"),
    (r("ΑΒ ο"), "AB o"), (r("a−b⋅c∗d"), r"a-b\cdot c*d"), (r("⇔↦↑⇌"), r"\Leftrightarrow\mapsto\uparrow\rightleftharpoons"), (r("∴∵∠△⊥∥"), r"\therefore\because\angle\triangle\bot\parallel"),
    (r("…⋯⋮⋱"), r"\ldots\cdots\vdots\ddots"), (r("⊊⊉∉∅"), r"\subsetneq\nsupseteq\notin\emptyset"), (r("a\u2061b\u200bc"), "abc"), (r("{a}~^"), r"\{a\}\sim\wedge"), (r("[0,1)"), r"\lbrack 0,1)"),
    (r("lim sin lcm dx"), r"\lim \sin \operatorname{lcm} dx"), (r("수열 의 합"), r"\text{수열 의 합}"), (r("a_1% of", "<m:rPr><m:nor/></m:rPr>"), r"\text{a\_1\% of}"), (r("ℏℓℵ∞"), r"\hbar\ell\aleph\infty"),
    (r("sin", '<m:rPr><m:sty m:val="p"/></m:rPr>'), r"\sin"), (r("H2", '<m:rPr><m:sty m:val="p"/></m:rPr>'), r"\mathrm{H}2"), (r("0α", '<m:rPr><m:sty m:val="bi"/></m:rPr>'), r"\mathbf{0}\boldsymbol{\alpha}"),
    *((f"<m:acc><m:accPr><m:chr m:val='{char}'/></m:accPr>{e(r(body))}</m:acc>", latex) for char, body, latex in [
        ("\u0302", "AB", r"\widehat{AB}"), ("\u0303", "AB", r"\widetilde{AB}"), ("\u0304", "x", r"\bar{x}"), ("\u0305", "x", r"\overline{x}"), ("\u20d7", "AB", r"\overrightarrow{AB}"),
        ("\u0301", "x", r"\acute{x}"), ("\u0300", "x", r"\grave{x}"), ("\u0306", "x", r"\breve{x}"), ("\u030c", "x", r"\check{x}"), ("\u030a", "x", r"\mathring{x}"), ("\u20db", "x", r"\dddot{x}"),
        ("\u20d6", "x", r"\overleftarrow{x}"), ("\u20e1", "x", r"\overleftrightarrow{x}"), ("\u0332", "x", r"\underline{x}"), ("⌒", "AB", r"\overset{⌒}{AB}"), ("\u0302", "α", r"\hat{\alpha}")]),
    *((f"<m:nary><m:naryPr><m:chr m:val='{char}'/></m:naryPr><m:sub>{r('D')}</m:sub><m:sup/>{e(r('f'))}</m:nary>", rf"\{name}_{{D}}f") for char, name in zip(
        "∏∐∬∭∮⋃⋂⋁⋀⨁⨂", ["prod", "coprod", "iint", "iiint", "oint", "bigcup", "bigcap", "bigvee", "bigwedge", "bigoplus", "bigotimes"], strict=True)),
    *((f"<m:d><m:dPr><m:begChr m:val='{left}'/><m:endChr m:val='{right}'/></m:dPr>{e(r('x'))}</m:d>", latex) for left, right, latex in [
        ("⟨", "⟩", r"\langle x\rangle"), ("⌈", "⌉", r"\lceil x\rceil"), ("", "|", r"\left.x\right|"), ("(", "", r"\left(x\right."), ("[", ")", r"\lbrack x)"), ("]", "[", r"\rbrack x\lbrack")]),
    *((f"<m:groupChr><m:groupChrPr><m:chr m:val='{char}'/><m:pos m:val='{at}'/></m:groupChrPr>{e(r('ab'))}</m:groupChr>", latex) for char, at, latex in [
        ("→", "top", r"\overrightarrow{ab}"), ("→", "bot", r"\xrightarrow{ab}"), ("←", "bot", r"\xleftarrow{ab}"), ("⏜", "top", r"\overset{\frown}{ab}"), ("⇒", "bot", r"\underset{\Rightarrow}{ab}")]),
    (f"<m:d><m:dPr><m:sepChr m:val=','/></m:dPr>{e(r('a'))}{e(r('b'))}</m:d>", "(a,b)"), (f"<m:phant><m:phantPr><m:show m:val='0'/></m:phantPr>{e(r('x'))}</m:phant>", r"\phantom{x}"),
    (f"<m:limLow>{e(r('x'))}<m:lim>{r('y')}</m:lim></m:limLow>", r"\underset{y}{x}"), (f"<m:limLow>{e(r('max'))}<m:lim>{r('i')}</m:lim></m:limLow>", r"\max_{i}"),
    (f"<m:limLow>{e(BRACED)}<m:lim>{r('3')}</m:lim></m:limLow>", r"\underbrace{ab}_{3}"), (f"<m:func><m:fName>{r('rot')}</m:fName>{e(r('F'))}</m:func>", r"\operatorname{rot}F"),
    (f"<m:sSup>{e(X_1)}<m:sup>{r('2')}</m:sup></m:sSup>", r"{x_{1}}^{2}"), (f"<m:sSup>{e(r('f'))}<m:sup>{r('′')}</m:sup></m:sSup>", "f'"),
    (f"<m:eqArr>{e(r('x#(1)'))}</m:eqArr>", r"\begin{aligned}x\qquad (1)\end{aligned}"), (f"<m:rad><m:deg>{r('[n]')}</m:deg>{e(r('x'))}</m:rad>", r"\sqrt[{[n]}]{x}"),
    (f"<x:AlternateContent xmlns:x='urn:x'><x:Choice>{r('new')}</x:Choice><x:Fallback>{r('old')}</x:Fallback></x:AlternateContent>", "new"),
]  # fmt: skip
SCRIPTS = [
    ("11 over20", r"\frac{11}{20}"), ("x=2a over 3b", r"x=\frac{2a}{3b}"), ("a + b over c", r"a+\frac{b}{c}"), ("f(x) over g(x)", r"\frac{f(x)}{g(x)}"), ("1 over -2", r"\frac{1}{-2}"), ("a {b}over{c}", r"a\frac{b}{c}"),
    ("10a^3 over b^2 times b^3 over 2a =(2a^2 over b)^3", r"\frac{10a^{3}}{b^{2}}\times\frac{b^{3}}{2a}=\left(\frac{2a^{2}}{b}\right)^{3}"), ("1TIMES10^-14", r"1\times10^{-14}"), ("e^-x", "e^{-x}"),
    ("lim_N->inf 1 over N sum_n=1^N n", r"\lim_{N\rightarrow\infty}\frac{1}{N}\sum_{n=1}^{N}n"), ("int from 0 to 3 ^3sqrt{x^2 +1}dx", r"\int_{0}^{3}\sqrt[3]{x^{2}+1}dx"), ("x^2^3", "x^{2}{}^{3}"), ("{a+b}^2", "{a+b}^{2}"),
    ("rm{bar EG}over{bar BH} = it{m}over{n}", r"\frac{\overline{\mathrm{EG}}}{\overline{\mathrm{BH}}}=\frac{m}{n}"), ("rm 2H_2 O", r"2\mathrm{H}_{2}\mathrm{O}"), ("{rm A} B", r"\mathrm{A}B"), ("bold {v alpha}", r"\mathbf{v}\boldsymbol{\alpha}"),
    ("rmKOH LEFT ( itaq RIGHT )", r"\mathrm{KOH}(aq)"), ("a timesm simZ", r"a\times m\sim Z"), ("root3 y", r"\sqrt{3}y"), ("bar {F primeF}", r"\overline{F'F}"), ("cdotscdots", r"\cdots\cdots"), ("f(x)= logx+sintheta", r"f(x)=\log x+\sin\theta"),
    ("house speed of", "house speed of"), ("x LSUB y LSUP 2", "{}_{y}^{2}x"), ("{}_{n}C_r", "{}_{n}C_{r}"), ("n choose k", r"\binom{n}{k}"), ("BINOM n k", r"\binom{n}{k}"), ("left ( n atop k right )", r"\binom{n}{k}"), ("left [ matrix{a&b} right ]", r"\begin{bmatrix}a&b\end{bmatrix}"),
    ("LEFT { a _{n} RIGHT }", r"\{a_{n}\}"), ("left < u,v right >", r"\langle u,v\rangle"), ("LEFT lceil x RIGHT rceil", r"\lceil x\rceil"), ("[0,1) (0,1]", r"[0,1)(0,1]"), ("]0", r"\rbrack 0"), ("LEFT [ 0,1 RIGHT )", r"\lbrack 0,1)"),
    ("A BUILDREL -> {n} B", r"A\xrightarrow{n}B"), ("not in", r"\notin"), ("box{x}", r"\boxed{x}"), ("U=(A SMALLUNION B) SMALLINTER C", r"U=(A\cup B)\cap C"), ("union _{i} A_i", r"\bigcup_{i}A_{i}"), ("dint tint odint", r"\iint\iiint\oiint"),
    ("LADDER {2&12&28#3&7&}", r"\begin{array}{r|rr}2&12&28\\3&7&\end{array}"), ("LONGDIV {6}{42}{252}", r"\begin{array}{r}42\\6\overline{)252}\end{array}"), ("scale 70 m over n", r"\frac{m}{n}"), ("lpile{a#b}", r"\begin{array}{l}a\\b\end{array}"), ("eqalign{a#[b]}", r"\begin{aligned}a\\{}[b]\end{aligned}"),
    ("PLUSMINUS MINUSPLUS", r"\pm\mp"), ("REIMAGE IMAG WP OHM", r"\Re\Im\wp\Omega"), ("CENTIGRADE HUND ATT", r"^{\circ}\mathrm{C}\text{‰※}"), ("hookleft udarrow UDARROW", r"\hookleftarrow\updownarrow\Updownarrow"), ("Lim asin lcm", r"\operatorname{Lim}\operatorname{asin}\operatorname{lcm}"),
    ("수열~의 합~~이", r"\text{수열 의 합 이}"), ('"a_b [c]" x', r"\text{a\_b [c]}x"), ("α≤β²", r"\alpha\leq\beta^{2}"), ("y=x^2 prime", "y=x^{2}{}'"), ("\\alpha", r"\alpha"), ("a & = b # & = c", r"\begin{aligned}a&=b\\&=c\end{aligned}"), ("hat ABC tilde AB", r"\widehat{ABC}\widetilde{AB}"),
]  # fmt: skip


@pytest.mark.parametrize(("inside", "latex"), TEXTS)
def test_words_characters_become_latex(inside: str, latex: str) -> None:
    assert read(inside) == latex


@pytest.mark.parametrize(("script", "latex"), SCRIPTS)
def test_words_of_a_script_stand_next_to_each_other_as_in_the_editor(script: str, latex: str) -> None:
    assert hancom(script) == latex


def test_the_lines_of_a_paragraph_are_gathered() -> None:
    lines = "".join(f"<m:oMath>{r(text)}</m:oMath>" for text in ("a=b", " ", "c=d"))
    assert omml(etree.fromstring(f'<m:oMathPara xmlns:m="{MATH}">{lines}</m:oMathPara>')) == (
        r"\begin{gathered}a=b\\c=d\end{gathered}"
    )


def test_no_equation_runs_on_beyond_its_bracket() -> None:
    for latex in [*(hancom(script) for script, _ in HANCOM + SCRIPTS), *(read(inside) for inside, _ in OMML + TEXTS)]:
        text = f"so [math: {latex}] holds [1] for all"
        assert _equations(text) == [(3, 11 + len(latex))], latex


@pytest.mark.parametrize(("inside", "latex"), OMML)
def test_words_equations_become_latex(inside: str, latex: str) -> None:
    assert read(inside) == latex


@pytest.mark.parametrize(("script", "latex"), HANCOM)
def test_hanguls_scripts_become_latex(script: str, latex: str) -> None:
    assert hancom(script) == latex


def test_structures_within_structures_stay_whole() -> None:
    fraction = f"<m:f><m:num>{r('1')}</m:num><m:den>{r('x')}</m:den></m:f>"
    root = f"<m:rad><m:radPr><m:degHide m:val='1'/></m:radPr><m:deg/>{e(fraction)}</m:rad>"
    assert read(f"<m:sSup>{e(f'<m:d>{e(root)}</m:d>')}<m:sup>{r('2')}</m:sup></m:sSup>") == (
        r"\left(\sqrt{\frac{1}{x}}\right)^{2}"
    )


def test_the_strict_namespace_is_read_too() -> None:
    inside = f"<m:f><m:num>{r('a')}</m:num><m:den>{r('b')}</m:den></m:f>"
    assert read(inside, "http://purl.oclc.org/ooxml/officeDocument/math") == r"\frac{a}{b}"


def test_an_equation_is_marked_in_the_text() -> None:
    root = etree.fromstring(f'<m:oMath xmlns:m="{MATH}">{r("x")}</m:oMath>')
    assert equation(root) == "[math: x]"
    assert equation(etree.fromstring("<equation><script>a over b</script></equation>")) == r"[math: \frac{a}{b}]"
    assert equation(etree.fromstring("<equation><script> </script></equation>")) == ""


WORDS = [*[r'over', r'sqrt', r'{', r'}', r'^', r'_', r'left', r'right', r'(', r')', r'[', r']', r'matrix', r'pmatrix', r'cases', r'sum', r'int', r'from', r'to', r'a', r'b', r'12', r'&', r'#', r'~', r'`', r'"', r'bar', r'vec', r'root', r'of'],
         *["LSUB", "rel", "not", "eqalign", "pile", "속도", "lim", "alpha", "ALPHA", "->", "<=", "bigg", "rm", "times", "atop", ",", ".", "|", "lbrace"]]  # fmt: skip


def test_any_script_is_read_soon_with_braces_in_pairs() -> None:
    chance = random.Random(7)
    for _ in range(3000):
        script = " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 30)))
        latex = hancom(script).replace(r"\\", "").replace(r"\{", "").replace(r"\}", "")
        assert latex.count("{") == latex.count("}"), script
        for word in ("12", "속도"):
            assert latex.count(word) >= (word in script.split()), script


@pytest.mark.parametrize(
    "script",
    ["{" * 100_000, "left ( " * 30_000, "matrix { " * 20_000, "over " * 30_000, "x^" * 50_000, "a over " * 30_000,
     "sqrt " * 50_000, "left { matrix", "matrix left", "x" * 1_000_000, "_^" * 50_000, "& # " * 50_000],
    ids=lambda script: script[:12],
)  # fmt: skip
def test_no_script_hangs_or_ends_the_reading(script: str) -> None:
    began = time.process_time()
    assert isinstance(hancom(script), str)
    assert time.process_time() - began < 10  # seconds; they take less than one


def test_deep_nesting_is_read_as_text() -> None:
    root = top = etree.Element(f"{{{MATH}}}oMath")
    for _ in range(2000):
        top = etree.SubElement(etree.SubElement(top, f"{{{MATH}}}rad"), f"{{{MATH}}}e")
    etree.SubElement(etree.SubElement(top, f"{{{MATH}}}r"), f"{{{MATH}}}t").text = "deep"
    assert omml(root).count("deep") == 1
    for script in ("{" * 9000, "sqrt " * 3000, "left ( " * 2000, "(" * 9000, "bar " * 3000, "matrix {" * 2000):
        assert hancom(f"{script} deep").count("deep") == 1


ARGUMENTS = {
    "f": ["num", "den"], "sSup": ["e", "sup"], "sSub": ["e", "sub"], "rad": ["deg", "e"], "d": ["e", "e"], "acc": ["e"],
    "nary": ["sub", "sup", "e"], "func": ["fName", "e"], "limLow": ["e", "lim"], "eqArr": ["e", "e"], "bar": ["e"],
    "groupChr": ["e"], "box": ["e"], "novel": ["e", "odd"], "sPre": ["sub", "sup", "e"], "sSubSup": ["e", "sub", "sup"],
}  # fmt: skip


def test_no_word_of_a_random_tree_is_lost() -> None:
    chance = random.Random(3)

    def tree(depth: int) -> str:
        if depth == 0 or chance.random() < 0.2:
            words.append(f"w{len(words)}q")
            return r(words[-1])
        tag = chance.choice(list(ARGUMENTS))
        inside = "".join(f"<m:{name}>{tree(depth - 1)}</m:{name}>" for name in ARGUMENTS[tag])
        stray = tree(0) if chance.random() < 0.2 else ""  # which no structure should hold
        return f"<m:{tag}>{inside}{stray}</m:{tag}>"

    for _ in range(500):
        words: list[str] = []
        latex = read(tree(5))
        assert [word for word in words if word not in latex] == []
