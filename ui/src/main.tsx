// Start of the pages.

import { QueryClientProvider } from "@tanstack/react-query";
import { createRoot } from "react-dom/client";
import { client } from "./app/client.ts";
import { Shell } from "./app/shell.tsx";
import { Boundary } from "./parts/states.tsx";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/shell.css";
import "./styles/pages.css";

createRoot(document.getElementById("app")!).render(
  <QueryClientProvider client={client}>
    <Boundary><Shell /></Boundary>
  </QueryClientProvider>,
);
