"""The style of all pages, on screens and on paper."""

STYLE = """
:root { --ink: #2b2b2b; --faint: #d9d9d9; --accent: #b5452c; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 2rem 1.25rem 6rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1rem; }
h2 { font-size: 1.35rem; margin: 3rem 0 .5rem; border-top: 2px solid var(--faint);
  padding-top: 1.5rem; }
h3 { font-size: 1rem; margin: 1.75rem 0 .5rem; }
p { max-width: 46rem; margin: .5rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.25rem;
  margin: 0 0 1.5rem; font-size: .92rem; }
dt { color: #6b6b6b; } dd { margin: 0; }
nav ol { columns: 2; font-size: .95rem; padding-left: 1.25rem; }
a { color: var(--accent); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .65rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--faint); }
th { white-space: normal; vertical-align: bottom; font-weight: 600; }
.word { text-align: left; }
tbody tr:hover { background: #f7f4f1; }
.note, figcaption { color: #555; font-size: .88rem; max-width: 46rem; }
figure { margin: 1.5rem 0 2.5rem; }
summary { cursor: pointer; color: var(--accent); margin-top: 1rem; }
.chart { width: 100%; }
@media (max-width: 700px) { dl { grid-template-columns: 1fr; } nav ol { columns: 1; } }
@page { size: A4; margin: 15mm; }
@media print {
  body { font-size: 10pt; print-color-adjust: exact;
    -webkit-print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  nav, details:not([open]) { display: none; }
  summary { list-style: none; color: inherit; font-weight: 600; }
  h2 { margin-top: 1.5rem; padding-top: .75rem; }
  h2, h3, .lead, thead, summary { break-after: avoid; }
  p, li { orphans: 3; widows: 3; }
  figure, tr, .lead, dl > div { break-inside: avoid; }
  /* Small tables are whole; large ones may break between rows, not at their ends. */
  tbody tr:nth-child(-n+2) { break-after: avoid; }
  tbody tr:nth-last-child(-n+2) { break-before: avoid; }
  table:not(:has(tr:nth-child(11))) { break-inside: avoid; }
  figure { margin: .75rem 0 1rem; }
  thead { display: table-header-group; }
  .wide { overflow: visible; }
  table { font-size: 8.5pt; }
  a { color: inherit; text-decoration: none; }
}
"""
