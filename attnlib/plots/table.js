// Rules off the row and the column of the cell under the pointer or the focus, says its sentence
// below the table, and moves the focus with the arrow keys.
for (const table of document.querySelectorAll("[id='TABLE']")) {
  if (table.dataset.live) continue;     // the same table stands on this page twice
  table.dataset.live = "yes";
  table.dataset.lmSuppressShortcuts = "yes";     // else JupyterLab takes the arrow keys
  const rows = Array.from(table.rows, (row) => Array.from(row.cells));
  const line = table.nextElementSibling;
  const about = line.textContent;
  const colour = "#c04f00";
  line.setAttribute("aria-live", "polite");

  const point = (at) => {
    const place = at && [at.parentElement.rowIndex, at.cellIndex];
    const weight = place && place[0] > 0 && place[1] > 0;
    rows.forEach((cells, row) => cells.forEach((cell, column) => {
      const rules = [];
      if (weight && row === place[0]) rules.push("0 2px", "0 -2px");
      if (weight && column === place[1]) rules.push("2px 0", "-2px 0");
      cell.style.boxShadow = rules.map((offset) => `inset ${offset} ${colour}`).join(", ");
      cell.style.outline = weight && cell === at ? `3px solid ${colour}` : "";
    }));
    line.textContent = weight ? at.title : about;
  };

  table.addEventListener("pointerover", (event) => point(event.target.closest("td, th")));
  table.addEventListener("pointerleave", () => point(null));
  table.addEventListener("focusin", (event) => point(event.target));
  table.addEventListener("focusout", () => point(null));
  table.addEventListener("keydown", (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();            // else a deck turns to the next slide
    const row = event.target.parentElement.rowIndex + step[0];
    const column = event.target.cellIndex + step[1];
    if (row < 1 || column < 1 || !rows[row] || !rows[row][column]) return;
    event.target.tabIndex = -1;
    rows[row][column].tabIndex = 0;
    rows[row][column].focus();
  });
}
