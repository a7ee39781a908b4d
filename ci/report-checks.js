// What `mad report` promises of its page, checked where a browser has laid it out. ci/report.sh adds this to a copy of the page
// and reads the findings from the attribute `data-wrong` of the root element.
const wrong = [];
const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const say = (element, what) =>
  wrong.push(`${element.closest("section")?.querySelector("h2")?.textContent ?? "page"}: ${what}`);
const meet = (a, b) =>
  a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 2 && b.top < a.bottom - 2;

// What matters comes first, in ten lines at the most, with the machine, the counts and the colours.
const summary = document.querySelector("#summary");
const first = document.querySelector("section, nav, main, table, svg");
if (!summary || first !== summary) wrong.push("page: the summary is not first");
else {
  const lines = all("li", summary);
  if (lines.length < 3 || lines.length > 10) say(summary, `${lines.length} lines`);
  if (!summary.textContent.includes("Machine:")) say(summary, "no machine");
  for (const word of ["met", "open", "missed"])
    if (!all(`.chip.${word}`, summary).some((chip) => new RegExp(`^\\d+ ${word}$`).test(chip.textContent))) say(summary, `no count of ${word}`);
  if (!document.querySelector("#colours")) say(summary, "no legend of the colours");
}

// Green is what is met, blue is newmad and the links.
const colour = (element) => getComputedStyle(element).color.match(/\d+/g).map(Number);
for (const chip of all(".chip.met")) {
  const [red, green, blue] = colour(chip);
  if (green <= red || green <= blue) say(chip, "met is not green");
}
for (const link of all("a")) {
  const [red, green, blue] = colour(link);
  if (blue <= red || blue <= green) say(link, "a link is not blue");
}

// Nothing is wider than the window; what is, scrolls in a box of its own.
const root = document.documentElement;
if (root.scrollWidth > innerWidth) wrong.push(`page: ${root.scrollWidth} pixels wide in a window of ${innerWidth}`);

const plots = all("svg.plot");
if (plots.length === 0 && all("section").length > 1) wrong.push("page: no plot");
for (const plot of plots) {
  const title = plot.getAttribute("aria-label");
  const frame = plot.getBoundingClientRect();
  const [one] = plots.map((other) => other.getBoundingClientRect());
  if (Math.abs(frame.width - one.width) > 1 || Math.abs(frame.height - one.height) > 1) say(plot, `${title}: a size of its own`);
  if (plot.dataset.scale === "log" && all("text.tick", plot).filter((text) => /[a-zµ]/i.test(text.textContent) || text.getAttribute("text-anchor") === "end").length < 3)
    say(plot, `${title}: a logarithmic axis has fewer than three labels`);
  const texts = all("text", plot).map((text) => [text.textContent, text.getBoundingClientRect()]);
  texts.forEach(([text, box], index) => {
    if (box.left < frame.left - 1 || box.right > frame.right + 1) say(plot, `${title}: "${text}" leaves the picture`);
    for (const [other, its] of texts.slice(index + 1))
      if (meet(box, its)) say(plot, `${title}: "${text}" and "${other}" overlap`);
  });
}

// No plot is alone in a row of a wide window, unless its section has no other.
if (innerWidth >= 1400)
  for (const group of all(".plots")) {
    const tops = all("figure", group).map((figure) => Math.round(figure.getBoundingClientRect().top));
    if (tops.length > 1 && tops.some((top) => tops.filter((other) => other === top).length === 1))
      say(group, "a plot is alone in its row");
  }

// A section cites a work once, and legends are in words.
for (const section of all("main > section")) {
  const cited = all("a[href^='#']", section).map((link) => link.textContent);
  for (const key of new Set(cited)) if (cited.filter((other) => other === key).length > 1) say(section, `${key} is cited twice`);
  for (const text of all(".legend li, figcaption", section))
    if (/[a-z]_[a-z]/.test(text.textContent)) say(text, `"${text.textContent}" is not in words`);
}

root.dataset.wrong = JSON.stringify(wrong);
