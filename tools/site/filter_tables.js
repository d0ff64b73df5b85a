// Puts a field above each long table that shows only the rows with the words in it. `gradient:none` looks in one column.
// `page.html?filter=words` fills the fields.
document.addEventListener("DOMContentLoaded", () => {
  const asked = new URLSearchParams(location.search).get("filter");
  const tables = [...document.querySelectorAll(".bd-article table")].filter((table) => table.tBodies[0]?.rows.length > 60);
  tables.forEach((table) => {
    const columns = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim().toLowerCase());
    const rows = [...table.tBodies[0].rows].map((row) => {
      const cells = [...row.cells].map((cell) => cell.textContent.toLowerCase());
      return { row, cells, text: cells.join(" ") };
    });
    const field = document.createElement("input");
    field.type = "search";
    field.className = "table-filter form-control";
    field.placeholder = `Filter ${rows.length} rows, such as: ${columns.length > 4 ? "conv gradient:yes" : "conv"}`;
    field.setAttribute("aria-label", "Filter the table");
    const count = document.createElement("span");
    count.className = "table-filter-count";
    count.setAttribute("aria-live", "polite");
    const container = table.closest(".pst-scrollable-table-container") ?? table;
    container.before(field, count);

    const show = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
        const [name, ...rest] = word.split(":");
        const column = rest.length ? columns.indexOf(name) : -1;
        return column < 0 ? (entry) => entry.text.includes(word) : (entry) => {
          const cell = entry.cells[column].trim(), wanted = rest.join(":");
          return wanted ? cell.includes(wanted) : cell === "";
        };
      });
      let shown = 0;
      for (const entry of rows) {
        const fits = words.every((has) => has(entry));
        entry.row.hidden = !fits;
        shown += fits;
      }
      count.textContent = words.length ? `${shown} of ${rows.length}` : "";
    };
    field.addEventListener("input", show);
    if (asked !== null) field.value = asked;
    show();
  });
});
