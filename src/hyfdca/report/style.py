"""Additions of the report's page to the style of all pages."""

from __future__ import annotations

_MOST_FOOTER = 140  # characters of a line on A4

STYLE = """
main { max-width: 980px; }
header { margin-bottom: 2rem; }
.kind { text-transform: uppercase; letter-spacing: .08em; font-size: .8rem;
  color: #6b6b6b; margin: 0; }
h1 { margin: .2rem 0 .4rem; overflow-wrap: anywhere; }
.summary { font-size: 1.08rem; max-width: 52rem; }
.claim { font-size: 1.3rem; line-height: 1.4; max-width: none; margin: 1.25rem 0;
  padding: 1rem 1.25rem; background: #eef5f7; border-left: 5px solid #1f6f8b; }
.claim.doubt { background: #fdf3e3; border-left-color: #b5452c; }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; }
.tiles div { flex: 0 0 auto; border: 1px solid var(--faint); border-radius: 6px;
  padding: .6rem .8rem; }
.tiles b { display: block; font-size: 1.1rem; font-variant-numeric: tabular-nums; }
.tiles span { color: #5d5d5d; font-size: .85rem; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; font-size: .92rem; }
.lead { max-width: 52rem; }
section > dl { display: block; margin-bottom: 1.25rem; }
dl > div { display: grid; grid-template-columns: 13rem 1fr; gap: 1rem;
  padding: .25rem 0; border-bottom: 1px solid #efefef; }
dd { overflow-wrap: anywhere; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
.pair figure, .pair .chart { min-width: 0; }
.pair figure:only-child { grid-column: 1 / -1; }
.columns { display: grid; grid-template-columns: 1fr 1fr; gap: 0 2rem; }
.columns p { font-size: .92rem; margin: .3rem 0 1rem; }
.warning { background: #fdf3e3; border-left: 5px solid #b5452c; padding: .6rem 1.1rem;
  margin: 1rem 0; }
.warning h3 { margin: .2rem 0 .4rem; }
.warning ul, .limits { padding-left: 1.1rem; margin: .4rem 0; }
.limits li, .warning li { margin: .35rem 0; max-width: 52rem; }
td.word { white-space: normal; overflow-wrap: anywhere; }
.scores td:first-child { white-space: nowrap; }
.wide { margin-bottom: 1rem; }
.map td, .map th { text-align: center; border: 2px solid #fff; white-space: normal; }
.held0 { background: #fbe4dc; color: #8a2f1a; font-style: italic; }
.held1 { background: #e3eff3; } .held2 { background: #b5d5df; }
.held3 { background: #8abccb; }
footer { margin-top: 3rem; color: #5d5d5d; font-size: .88rem; }
@media (max-width: 700px) {
  .pair, .columns { grid-template-columns: 1fr; }
  dl > div { grid-template-columns: 1fr; gap: 0; }
  .claim { font-size: 1.1rem; }
  td.word { overflow-wrap: break-word; min-width: 6rem; }
  td.word + td.word { min-width: 9.5rem; }
  .scores td:first-child, .scores td:last-child { white-space: normal; }
}
@media print {
  nav { display: none; }
  td, th { padding: .15rem .5rem; }
  .pair, .columns { grid-template-columns: 1fr 1fr; }
  .columns { font-size: 9pt; }
  .columns p { font-size: 8.5pt; line-height: 1.4; }
  header { margin-bottom: 1rem; }
  .summary { font-size: 11pt; }
  .claim { font-size: 13pt; margin: .8rem 0; padding: .6rem 1rem; }
  .tiles { gap: .4rem; }
  .tiles div { padding: .3rem .5rem; }
  .tiles b { font-size: 10pt; }
  .tiles span { font-size: 7.5pt; }
  dl > div { grid-template-columns: 16rem 1fr; padding: .12rem 0; }
  .warning, .note, .claim, .tiles div { break-inside: avoid; }
  .wide + .note, .note + .note { break-before: avoid; }
  .limits { margin: .2rem 0; } .limits li { margin: .15rem 0; }
}
"""


def page_footer(text: str) -> str:
    """Return the style that puts a line and the page's number below printed pages."""
    short = text if len(text) <= _MOST_FOOTER else f"{text[: _MOST_FOOTER - 1]}…"
    box = "font: 7pt system-ui, sans-serif; color: #6b6b6b;"
    return (
        "@page { margin-bottom: 18mm;\n"
        f"  @bottom-left {{ {box} width: 92%; content: {_quoted(short)}; }}\n"
        f"  @bottom-right {{ {box} content: counter(page) ' / ' counter(pages); }} }}\n"
    )


def _quoted(text: str) -> str:
    """Return text as a string of CSS: only letters and digits stand for themselves."""
    safe = "".join(c if c.isascii() and c.isalnum() else f"\\{ord(c):x} " for c in text)
    return f'"{safe}"'
