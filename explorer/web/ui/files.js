// Files that are dropped on an element. Must not depend on their content.

/**
 * Accepts files that are dropped on an element.
 * @param {HTMLElement} element
 * @param {(files: File[]) => void} onFiles
 */
export function acceptFiles(element, onFiles) {
  const hasFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files") ?? false;
  element.addEventListener("dragover", (event) => {
    if (hasFiles(event)) {
      event.preventDefault();
      element.classList.add("file-target");
    }
  });
  element.addEventListener("dragleave", (event) => {
    if (!(event.relatedTarget instanceof Node) || !element.contains(event.relatedTarget)) {
      element.classList.remove("file-target");
    }
  });
  element.addEventListener("drop", (event) => {
    element.classList.remove("file-target");
    if (hasFiles(event)) {
      event.preventDefault();
      onFiles([...(event.dataTransfer?.files ?? [])]);
    }
  });
}
