// Builds the pages into src/noetl/ui: hashed names, no source maps, nothing inlined,
// so that the content policy of the server holds.
import { defineConfig } from "vite";

const server = process.env.NOETL_SERVER ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "/",
  define: { "process.env.NODE_ENV": JSON.stringify("production") },
  build: {
    outDir: "../src/noetl/ui",
    emptyOutDir: true,
    target: ["chrome123", "firefox121", "safari17.5"],
    sourcemap: false,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.md" },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 700,
    rolldownOptions: {
      output: {
        // What the first page needs is one file; only editor and rarer pages are others.
        codeSplitting: { groups: [{ name: "index", tags: ["$initial"] }] },
      },
      onwarn(warning, tell) {
        if (warning.code !== "MODULE_LEVEL_DIRECTIVE") tell(warning); // "use client" means nothing here
      },
    },
  },
  server: { proxy: { "/api": server } },
  preview: { proxy: { "/api": server } },
});
