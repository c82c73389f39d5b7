"""How the page looks, in the light and in the dark."""

STYLE = """
:root { --ink: #1d2329; --soft: #5a6672; --paper: #ffffff; --line: #d5dbe1; --headgate: #1769aa; --flink: #c2560c;
  --spark: #6b7a1f; --other: #7b5ea7; --bad: #b3261e; --good: #1b7f43; --panel: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e8ed; --soft: #9aa7b3; --paper: #14181c; --line: #333c45; --headgate: #5aa9e6; --flink: #ee8d4b;
    --spark: #b3c45a; --other: #b39ddb; --bad: #ff8a80; --good: #69d196; --panel: #1b2127; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 940px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 8px 0; } h2 { font-size: 18px; margin: 34px 0 8px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; color: var(--soft); font-weight: 600; }
th, td { padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.missed td:nth-child(5) { color: var(--bad); font-weight: 600; } tr.met td:nth-child(5) { color: var(--good); }
tr.not-measured td { color: var(--soft); }
.missed { border-left: 4px solid var(--bad); padding: 2px 16px; background: var(--panel); }
section.missed h2 { margin-top: 8px; } .small { color: var(--soft); font-size: 13px; } .wrong { color: var(--bad); }
code { font-size: 12px; overflow-wrap: anywhere; } a { color: inherit; }
details { margin: 6px 0; } summary { cursor: pointer; color: var(--soft); }
svg { width: 100%; height: auto; display: block; margin: 6px 0 10px; }
svg text { font: 13px system-ui, sans-serif; fill: var(--ink); } svg .label { text-anchor: end; }
svg .unit { fill: var(--soft); font-size: 12px; } svg .axis { stroke: var(--soft); }
svg .bar { opacity: 0.55; } svg .headgate { fill: var(--headgate); } svg .flink { fill: var(--flink); }
svg .spark { fill: var(--spark); } svg .other { fill: var(--other); }
svg .dot { fill: var(--ink); } svg .dot.disturbed { fill: var(--paper); stroke: var(--ink); }
"""
