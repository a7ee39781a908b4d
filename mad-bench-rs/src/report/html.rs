//! The page: one file without anything from elsewhere, for narrow and wide screens, light and dark.

/// Text as it may stand in markup.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// Colours of curves, `--c0` and so on.
pub(super) const COLOURS: usize = 8;

const STYLE: &str = "
:root { color-scheme: light dark;
  --back: #fff; --ink: #1b1f24; --dim: #59636e; --line: #d8dee4; --soft: #f4f6f8; --own: #1f6feb; --heat: #0e7490;
  --met: #1a7f37; --open: #8a5a00; --missed: #c11c27;
  --c0: #1f6feb; --c1: #c2570c; --c2: #8250df; --c3: #0e8a9c; --c4: #bf3989; --c5: #7d5a2b; --c6: #57606a; --c7: #3b4a9e; }
@media (prefers-color-scheme: dark) { :root {
  --back: #0d1117; --ink: #e6edf3; --dim: #9aa4af; --line: #30363d; --soft: #161b22; --own: #58a6ff; --heat: #39c5cf;
  --met: #56d364; --open: #e3b341; --missed: #ff7b72;
  --c0: #58a6ff; --c1: #f0883e; --c2: #bc8cff; --c3: #39c5cf; --c4: #f778ba; --c5: #c9a26d; --c6: #9aa4af; --c7: #a5b4fc; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 16px; max-width: 1360px; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 8px 0 16px; } h2 { font-size: 1.25rem; margin: 0 0 4px; }
main > section, footer { border-top: 1px solid var(--line); padding: 24px 0; }
a { color: var(--own); } .dim { color: var(--dim); } p { margin: 6px 0; max-width: 90ch; }
#summary { background: var(--soft); border-radius: 8px; padding: 14px 18px; margin-bottom: 14px; }
#summary ul, footer ul { list-style: none; margin: 0; padding: 0; } #summary li { padding: 2px 0; }
.chip { display: inline-block; padding: 0 8px; border: 1px solid currentColor; border-radius: 10px; font-weight: 600;
  font-size: .85em; line-height: 1.45; white-space: nowrap; }
.chip.met { color: var(--met); } .chip.open { color: var(--open); } .chip.missed { color: var(--missed); }
.own { color: var(--own); font-weight: 600; }
code { font: 0.9em ui-monospace, monospace; background: var(--soft); padding: 1px 4px; border-radius: 4px; overflow-wrap: anywhere; }
.plots { display: grid; gap: 18px 16px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 320px), 320px)); margin-top: 14px; }
.row { display: contents; }
.beside { display: flex; flex-wrap: wrap; gap: 0 32px; align-items: flex-start; } .beside > .scroll { flex: 0 1 auto; }
.beside > .plots { flex: 0 0 min(100%, 320px); grid-template-columns: 100%; }
@media (min-width: 1380px) { .above > .plots { display: block; } .above .row { display: flex; gap: 16px; margin-bottom: 18px; }
  .row figure { flex: 0 0 320px; } .beside { flex-wrap: nowrap; } }
@media (max-width: 700px) { .plots, .beside > .plots { grid-template-columns: 100%; } .beside > .plots { flex-basis: 100%; } }
figure { margin: 0; min-width: 0; } figcaption { font-weight: 600; font-size: .85rem; line-height: 1.3; min-height: 2.6em;
  display: flex; align-items: flex-end; margin-bottom: 4px; }
@media (max-width: 700px) { figcaption { min-height: 0; } }
svg.plot { width: 100%; height: auto; display: block; font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .dim { fill: var(--dim); } svg .grid { stroke: var(--line); fill: none; }
svg .whisker { fill: none; stroke-width: 1.5; opacity: .55; }
svg .whisker.over { stroke: var(--ink); } svg .curve { fill: none; stroke-width: 2; }
svg .heat { fill: var(--heat); stroke: var(--line); } svg .hot { fill: var(--back); } svg .cold { fill: var(--ink); }
COLOURS
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 14px; padding: 0; margin: 4px 0 0; font-size: .85rem; }
svg.key { display: inline-block; width: 26px; height: 8px; margin-right: 5px; vertical-align: middle; }
.scroll { overflow-x: auto; max-width: 100%; } table { border-collapse: collapse; font-size: .85rem; }
.figures th, .figures td { padding: 3px 10px 3px 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
.figures th.k, .figures td.k { text-align: left; }
.results { margin-top: 10px; } .results th, .results td { padding: 5px 16px 5px 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); } .results thead th { color: var(--dim); font-weight: 600; }
.results tbody th { font-weight: 400; border-left: 4px solid var(--line); padding-left: 10px; max-width: 44ch; }
.results td { font-variant-numeric: tabular-nums; max-width: 30ch; } .results td[data-name=ratio] { white-space: nowrap; }
.results tr.met th { border-left-color: var(--met); } .results tr.open th { border-left-color: var(--open); }
.results tr.missed th { border-left-color: var(--missed); }
@media (max-width: 700px) { .results, .results tbody, .results tr, .results th, .results td { display: block; max-width: none; }
  .results thead { display: none; } .results tr { margin: 0 0 12px; border-left: 4px solid var(--line); padding-left: 10px; }
  .results tr.met { border-left-color: var(--met); } .results tr.open { border-left-color: var(--open); }
  .results tr.missed { border-left-color: var(--missed); }
  .results tbody th { border: 0; padding: 0 0 2px; font-weight: 600; }
  .results td { border: 0; padding: 0; display: flex; justify-content: space-between; gap: 12px; text-align: right; }
  .results td::before { content: attr(data-name); color: var(--dim); text-align: left; } .results td:empty { display: none; } }
details { margin-top: 8px; } summary { cursor: pointer; color: var(--dim); }
nav { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: .9rem; margin-bottom: 10px; }
";

/// The whole page.
pub(crate) fn page(title: &str, body: &str) -> String {
    let colours: String = (0..COLOURS)
        .map(|i| {
            format!(
                "svg .s{i} circle, svg rect.s{i} {{ fill: var(--c{i}); }} svg .s{i} .whisker, svg .curve.s{i} {{ stroke: var(--c{i}); }}\n"
            )
        })
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n",
        escape(title),
        STYLE.replace("COLOURS", &colours)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_stays_text() {
        assert_eq!(escape("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
        let page = page("t", "<p>body</p>");
        assert!(!page.contains("http") && page.contains("prefers-color-scheme: dark"));
    }
}
