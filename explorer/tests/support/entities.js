// Locators for the parts of the entities view.

export const cell = (page, name) => page.getByRole("gridcell", { name, exact: true });
export const button = (page, name) => page.getByRole("button", { name, exact: true });
export const value = (page, name) => page.getByLabel(`Value of ${name}`, { exact: true });
export const type = (page, name) => page.getByLabel(`Type of ${name}`, { exact: true });
export const foot = (page, text) => page.locator(".entities-foot").getByText(text, { exact: true });
export const undoButton = (page) => page.getByRole("toolbar", { name: "Entities" }).getByRole("button", { name: /^Undo/ });
export const closed = (page) => page.getByRole("dialog").first().waitFor({ state: "detached" });

// Opens the whole entity of a cell.
export async function openEntity(page, name) {
  await cell(page, name).click();
  await page.keyboard.press("Enter");
}

// Chooses an entry of the menu of the toolbar.
export async function chooseTool(page, name) {
  await button(page, "More").click();
  await page.getByRole("menuitem", { name, exact: true }).click();
}

// Returns the entries of the menu of the toolbar.
export async function toolsInMenu(page) {
  await button(page, "More").click();
  const names = await page.getByRole("menuitem").allTextContents();
  await page.keyboard.press("Escape");
  return names;
}
