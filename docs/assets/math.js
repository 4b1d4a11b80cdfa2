// Typesets the formulas of a page with KaTeX (docs/assets/katex), without any request to another host.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const display = element.textContent.trim().startsWith("\\[");
    const source = element.textContent.trim().slice(2, -2);
    katex.render(source, element, { displayMode: display, throwOnError: false });
  }
});
