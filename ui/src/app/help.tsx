// The keys that work on the page that is shown.

import { Dialog } from "../parts/dialog.tsx";
import { allKeys, keyWords } from "./keys.ts";
import { choose, useSettings } from "./settings.ts";

export function KeysHelp({ onClose }: { onClose: () => void }) {
  const { keys } = useSettings();
  const list = [...new Map(allKeys().map((key) => [key.does, key])).values()];
  return (
    <Dialog title="Keys" onClose={onClose} className="wide">
      <ul className="keys-list">
        {list.map((key) => <li key={key.keys}><span>{key.does}</span><kbd>{keyWords(key.keys)}</kbd></li>)}
      </ul>
      <label className="row">
        <input type="checkbox" checked={keys === "on"} onChange={(event) => choose({ keys: event.target.checked ? "on" : "off" })} />
        Single keys act on the page
      </label>
    </Dialog>
  );
}
