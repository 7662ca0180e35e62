// The page of the address, loaded on demand; what a page shows is in its address.

import { Suspense, useEffect } from "react";
import { Redirect, Route, Switch, useLocation } from "wouter";
import { PAGES } from "../pages/registry.ts";
import { Boundary, Empty, Loading } from "../parts/states.tsx";

export function Pages() {
  const [location] = useLocation();
  return (
    <Suspense fallback={<Loading rows={12} />}>
      <Switch>
        {PAGES.map(({ path, title, view: View }) => (
          <Route key={path} path={path}>
            <Boundary key={path === "/executions/:id" ? location : path}>
              <Title text={title} />
              <View />
            </Boundary>
          </Route>
        ))}
        <Route path="/"><Redirect to="/executions" replace /></Route>
        <Route><Empty title="No such page" icon="question"><p><a href="/executions">Executions</a></p></Empty></Route>
      </Switch>
    </Suspense>
  );
}

/** Title of the browser's tab; a page may set a more exact one. */
export function Title({ text }: { text: string }) {
  useEffect(() => {
    document.title = `${text} · NoETL`;
  }, [text]);
  return null;
}
