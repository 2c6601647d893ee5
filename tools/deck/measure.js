// What is wrong with the state that the deck shows now, as a list of sentences.
// browser.py calls this in the page with the smallest height that text may have, in pixels.
(smallest) => {
  const slide = Reveal.getCurrentSlide();
  const footer = slide.querySelector(":scope > footer");
  const content = slide.querySelector(":scope > .content");
  const findings = new Set();

  // The footer may use the whole view. All else stays above it and between the margins, into
  // which blocks of code hang by 20 px.
  const view = {left: 0, right: innerWidth, top: 0, bottom: innerHeight};
  const column = content.getBoundingClientRect();
  const page = {
    top: 0, bottom: footer.getBoundingClientRect().top, left: column.left - 20, right: column.right + 20,
  };

  const isShown = (element) =>
    !element.closest("aside.notes, script, style")
    && element.checkVisibility({opacityProperty: true, visibilityProperty: true});

  function quoted(text) {
    const line = text.trim().replace(/\s+/g, " ");
    return `"${line.length > 60 ? line.slice(0, 59) + "…" : line}"`;
  }

  const excess = new Map();        // "name is outside at the right" -> pixels
  let end = 0;                     // where the lowest thing ends
  let below = null;                // the highest thing that ends below the page

  function checkPlace(name, rect, element) {
    if (rect.bottom === rect.top || rect.right === rect.left) return;
    const area = footer.contains(element) ? view : page;
    const beyond = {
      left: area.left - rect.left, right: rect.right - area.right, top: area.top - rect.top,
    };
    for (const [side, pixels] of Object.entries(beyond)) {
      const key = `${name} is outside at the ${side}`;
      if (pixels > 1) excess.set(key, Math.max(pixels, excess.get(key) ?? 0));
    }
    if (area === page) end = Math.max(end, rect.bottom);
    if (rect.bottom > area.bottom + 1 && (!below || rect.top < below.top)) below = {name, top: rect.top};
  }

  function checkSize(name, element) {
    const matrix = element.closest("svg") && element.getScreenCTM?.();
    const scale = matrix ? Math.hypot(matrix.a, matrix.b) : Reveal.getScale();
    const size = parseFloat(getComputedStyle(element).fontSize) * scale;
    if (size < smallest - 0.01) findings.add(`${name} is ${size.toFixed(1)} px high, under ${smallest} px`);
  }

  function checkText(node) {
    const parent = node.parentElement;
    if (!node.data.trim() || !isShown(parent) || parent.closest(".MathJax")) return;
    checkSize(quoted(node.data), parent);
    const code = parent.closest("pre");
    if (code) {
      checkLines(node, code);
      return;
    }
    const range = document.createRange();
    range.selectNodeContents(node);
    checkPlace(quoted(node.data), range.getBoundingClientRect(), parent);
    // A dollar sign before a word and one after a word: Markdown did not take it for a formula.
    if (!parent.closest("code") && /\$(?=\S)[^$]*[^\s$]\$(?!\d)|\$\$/.test(node.data)) {
      findings.add(`formula left as text: ${quoted(node.data)}`);
    }
  }

  // Code is many small nodes a line, output one node of many lines: name the line that is too long.
  function checkLines(node, code) {
    const range = document.createRange();
    range.setStart(code, 0);
    range.setEnd(node, 0);
    const before = range.toString().length;
    for (const {0: text, index} of node.data.matchAll(/[^\n]+/g)) {
      range.setStart(node, index);
      range.setEnd(node, index + text.length);
      const start = code.textContent.lastIndexOf("\n", before + index) + 1;
      const line = code.textContent.slice(start).split("\n", 1)[0];
      checkPlace(`line ${quoted(line)}`, range.getBoundingClientRect(), code);
    }
  }

  function checkElement(element) {
    if (!isShown(element) || element.closest(".MathJax")) return;
    const name = element.alt ? `picture ${quoted(element.alt)}` : `<${element.localName}>`;
    // An element that holds only text has been judged by its text.
    if (element.childNodes.length === 0) checkPlace(name, element.getBoundingClientRect(), element);
    const cut = element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1;
    if (cut && getComputedStyle(element).overflow !== "visible" && !element.closest("svg")) {
      findings.add(`${name} hides a part of its content, or scrolls`);
    }
  }

  function checkImage(image) {
    // The second is what nbconvert writes where nobody wrote anything.
    if (!image.alt.trim() || image.alt === "No description has been provided for this image") {
      findings.add("picture without alternative text");
    }
    if (image.complete && image.naturalWidth === 0) {
      findings.add(`picture not loaded: ${image.getAttribute("src").slice(0, 80)}`);
    }
  }

  function checkFormula(script) {
    if (!isShown(script.parentElement)) return;
    const name = `formula ${quoted(script.text)}`;
    const frame = document.getElementById(`${script.id}-Frame`);
    const {left, right} = frame?.getBoundingClientRect() ?? {left: 0, right: 0};
    if (left === right) {
      findings.add(`${name} was not drawn`);
    } else if (frame.querySelector(".merror, .MathJax_Error")) {
      findings.add(`${name} does not parse: ${frame.textContent.trim()}`);
    } else {
      const letters = document.createTreeWalker(frame, NodeFilter.SHOW_TEXT);
      while (letters.nextNode()) checkSize(name, letters.currentNode.parentElement);
      // MathJax's boxes are larger than what they show; its last strut has the true height.
      const {top, bottom} = frame.querySelector(".math").lastElementChild.getBoundingClientRect();
      checkPlace(name, {left, right, top, bottom}, frame);
    }
  }

  const texts = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) checkText(texts.currentNode);
  slide.querySelectorAll("*").forEach(checkElement);
  [...slide.querySelectorAll("img")].filter(isShown).forEach(checkImage);
  slide.querySelectorAll('script[type^="math/tex"]').forEach(checkFormula);

  // The column also ends with what has no text, such as a border. A fragment takes its place before
  // it is shown, so this counts from the last one on.
  if (!Reveal.availableFragments().next) end = Math.max(end, column.bottom);
  if (end > page.bottom + 1) {
    const where = below ? `, and the page ends at ${below.name}` : "";
    findings.add(`too long by ${Math.round(end - page.bottom)} px${where}`);
  }
  for (const [what, pixels] of excess) findings.add(`${what} by ${Math.round(pixels)} px`);
  for (const note of slide.querySelectorAll('aside.notes[data-minutes=""]')) {
    findings.add(`note without its minutes ("*For the lecturer, 3 min.* ..."): ${quoted(note.textContent)}`);
  }
  return [...findings];
}
