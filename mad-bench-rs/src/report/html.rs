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

const STYLE: &str = "
:root { color-scheme: light dark;
  --back: #fff; --ink: #1b1f24; --dim: #5c6570; --line: #d8dee4; --soft: #f4f6f8; --heat: #1f6feb;
  --c0: #1f6feb; --c1: #d1242f; --c2: #1a7f37; --c3: #9a6700; --c4: #8250df; --c5: #0e7490; --c6: #bf3989; --c7: #57606a; }
@media (prefers-color-scheme: dark) { :root {
  --back: #0d1117; --ink: #e6edf3; --dim: #9aa4af; --line: #30363d; --soft: #161b22; --heat: #4493f8;
  --c0: #58a6ff; --c1: #ff7b72; --c2: #56d364; --c3: #e3b341; --c4: #bc8cff; --c5: #39c5cf; --c6: #f778ba; --c7: #9aa4af; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 16px; max-width: 1360px; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin: 0 0 4px; }
section { border-top: 1px solid var(--line); padding: 20px 0; }
a { color: var(--c0); } .dim { color: var(--dim); } p { margin: 6px 0; max-width: 80ch; }
.says { border-left: 4px solid var(--c0); background: var(--soft); padding: 8px 12px; margin: 10px 0; max-width: 90ch; }
.says.missed { border-color: var(--c1); } .says.unsure { border-color: var(--c3); }
code { font: 0.9em ui-monospace, monospace; background: var(--soft); padding: 1px 4px; border-radius: 4px; }
.plots { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); }
figure { margin: 0; min-width: 0; max-width: 640px; }
svg { width: 100%; height: auto; display: block; font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .title { font-weight: 600; font-size: 13px; } svg .dim { fill: var(--dim); font-size: 11px; }
svg .grid { stroke: var(--line); fill: none; } svg .whisker { fill: none; stroke-width: 1.5; opacity: .55; }
svg .whisker.over { stroke: var(--ink); } svg .curve { fill: none; stroke-width: 2; }
svg .heat { fill: var(--heat); stroke: var(--line); } svg .hot { fill: var(--back); } svg .cold { fill: var(--ink); }
COLOURS
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 14px; padding: 0; margin: 4px 0 0; font-size: .85rem; }
svg.key { display: inline-block; width: 26px; height: 8px; margin-right: 5px; vertical-align: middle; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; }
th, td { padding: 3px 10px 3px 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th.k, td.k { text-align: left; } details { margin-top: 10px; } summary { cursor: pointer; color: var(--dim); }
nav { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: .9rem; }
";

/// The whole page.
pub(crate) fn page(title: &str, body: &str) -> String {
    let colours: String = (0..8)
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
