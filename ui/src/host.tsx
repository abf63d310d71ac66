// The page on a server without Airflow: provides the libraries that Airflow's UI provides otherwise, and renders the page.
import { ChakraProvider, defaultSystem } from "@chakra-ui/react";
import * as ChakraUI from "chakra-used";
import * as React from "react";
import { createRoot } from "react-dom/client";
import * as ReactJSXRuntime from "react/jsx-runtime";
import * as ReactRouterDOM from "react-router-dom";

Object.assign(globalThis, { React, ReactJSXRuntime, ReactRouterDOM, ChakraUI });

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const applyTheme = () => document.documentElement.classList.toggle("dark", dark.matches);
dark.addEventListener("change", applyTheme);
applyTheme();

// the page's own script runs between this one and the event
document.addEventListener("DOMContentLoaded", () => {
  const { Connect } = globalThis as unknown as { Connect: React.ComponentType };
  const root = document.getElementById("root");
  if (!root) return;
  createRoot(root).render(
    <ChakraProvider value={defaultSystem}>
      <ReactRouterDOM.BrowserRouter basename={window.location.pathname}>
        <Connect />
      </ReactRouterDOM.BrowserRouter>
    </ChakraProvider>,
  );
});
