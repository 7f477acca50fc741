// Declares style sheets as modules, which TypeScript does not support by itself.

declare module "*.css" {
  const sheet: CSSStyleSheet;
  export default sheet;
}
