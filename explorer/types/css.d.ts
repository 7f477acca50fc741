// Style sheets as modules, which TypeScript does not know.

declare module "*.css" {
  const sheet: CSSStyleSheet;
  export default sheet;
}
