// The fonts first: the size of a formula goes by the text around it. Typeset the formulas, then lay out the
// slides: reveal.js measures what it shows.
// Loaded before MathJax.js, which reads this configuration.
const fonts = Promise.all([
  "25px 'Deck Sans'", "italic 25px 'Deck Sans'", "700 25px 'Deck Sans'", "italic 700 25px 'Deck Sans'",
  "20px 'Deck Mono'", "700 20px 'Deck Mono'", "italic 20px 'Deck Mono'", "25px 'Deck Chinese'",
].map((font) => document.fonts.load(font, "x我")));

try {
  decodeURIComponent(location.hash);
} catch {                          // such as #/50%, on which MathJax and reveal.js would stop
  history.replaceState(null, "", location.pathname + location.search);
}

window.MathJax = {
  config: ["TeX-AMS-MML_HTMLorMML-full.js"],
  messageStyle: "none",
  showMathMenu: false,
  // The page marks its formulas itself; nothing searches the text for dollar signs.
  extensions: [],
  jax: ["input/TeX", "output/HTML-CSS"],
  "HTML-CSS": {
    availableFonts: [],
    webFont: "STIX-Web",
    imageFont: null,
    EqnChunk: 1000,
    // MathJax's own placeholder font is a request that browsers now refuse, with an error.
    styles: {"@font-face": {"font-family": "MathJax_Blank", src: "local('MathJax_Blank')"}},
  },
  // A formula that does not parse is to be seen, by the author and by `--check`.
  TeX: {noErrors: {disabled: true}, noUndefined: {disabled: true}},
  // Both would draw each formula a second time, with fonts that are not here.
  "fast-preview": {disabled: true},
  AssistiveMML: {disabled: true},
  AuthorInit() {
    // An exponent's exponent is smaller than a hall can read; with this it has 18 px.
    MathJax.Hub.Register.StartupHook("mml Jax Ready", () => {
      MathJax.ElementJax.mml.math.prototype.defaults.scriptminsize = "0.58em";
    });
    MathJax.Hub.Register.StartupHook("Begin", () => {
      const loaded = MathJax.Callback(() => {});
      fonts.finally(loaded);
      return loaded;                // MathJax waits for it
    });
    MathJax.Hub.Register.StartupHook("End", startDeck);
  },
};

// Words, code and figures of a slide grow where there is room for it, for the last row's sake; else the figure
// alone. The first slide of a deck keeps its sizes. Each size has the lowest pixel that it may reach.
const SIZES = [["content wide large", 600], ["content wide", 640], ["content", 720]];

function enlarge() {
  const fits = (element) => element.scrollWidth <= element.clientWidth;
  for (const content of document.querySelectorAll("section[data-number] > .content:not(:has(h1))")) {
    for (const [sizes, room] of SIZES) {
      content.className = sizes;
      if (content.offsetHeight <= room && [...content.querySelectorAll(".prose, pre")].every(fits)) break;
    }
  }
}

function startDeck() {
  enlarge();
  Reveal.initialize({
    width: 1280,
    height: 720,
    margin: 0,
    maxScale: 4,
    center: false,
    hash: true,
    slideNumber: "c/t",            // G counts slides, as the footer does, whose number is shown instead
    showSlideNumber: "never",
    navigationMode: "linear",      // the arrow keys and a presenter's clicker never skip a slide
    transition: "none",
    controlsTutorial: false,
    pdfSeparateFragments: false,
    defaultTiming: 0,              // each slide brings its own; this turns the speaker's pacing on
    plugins: [RevealNotes],
  }).then(() => document.documentElement.setAttribute("data-deck", "ready"));
}

// The speaker's window comes with its own page, which has no letters for Chinese.
addEventListener("message", ({data, source}) => {
  if (typeof data !== "string" || !/"reveal-notes".*"connected"/.test(data)) return;
  let speaker;
  try {
    speaker = source.document;
  } catch {
    return;                        // a window from before the deck was loaded anew, which has the letters
  }
  const link = speaker.createElement("link");
  link.rel = "stylesheet";
  link.href = new URL("lib/deck.css", document.baseURI);
  speaker.head.append(link);
});
