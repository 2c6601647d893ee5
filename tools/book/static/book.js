const root = document.documentElement;

// Paper is white, whatever the screen shows.
let shown;
addEventListener("beforeprint", () => { shown = root.dataset.theme; root.dataset.theme = "light"; });
addEventListener("afterprint", () => { root.dataset.theme = shown; });

// A browser shows what a page from a file links to and does not save it: there the notebook is a script.
function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text]));
  link.download = name;
  link.click();
}
addEventListener("DOMContentLoaded", () => {
  const notebook = document.querySelector("a.notebook");
  if (notebook && location.protocol === "file:") {
    notebook.addEventListener("click", (event) => {
      event.preventDefault();
      const script = document.createElement("script");
      script.src = `${notebook.href}.js`;
      document.head.append(script);
    });
  }
  // Who has chosen from the contents wants to read.
  const contents = document.querySelector("#pst-secondary-sidebar-modal");
  contents?.addEventListener("click", (event) => { if (event.target.closest("a")) contents.close(); });
});
