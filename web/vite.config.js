import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/deixis/web/static",
    emptyOutDir: true,
    target: "es2022",
    // The content security policy allows no data: addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // Two apps: the photo search, and the annotation workbench.
    rolldownOptions: { input: ["index.html", "annotate.html"] },
  },
  server: { proxy: { "/api": "http://127.0.0.1:7860" } },
});
