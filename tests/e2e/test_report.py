"""Reports as their readers open them: in a browser, from a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser

from .conftest import Shell

HOSTILE = "</script><script>window.hit=1;alert(1)</script><img src=x onerror=alert(2)>"
WORKFLOW = f"""
- step: start
  desc: "{HOSTILE}"
  loop: {{in: "{{{{ range(100) }}}}", iterator: n}}
  tool:
    - ask:
        kind: noop
        result: {{n: "{{{{ iter.n }}}}", evil: "{HOSTILE}"}}
  next: {{arcs: [{{step: store, args: {{evil: "{HOSTILE}"}}}}]}}
- step: store
  tool:
    - write:
        kind: shell
        command: "echo '{HOSTILE}'; exit 7"
  next:
    arcs:
      - {{step: end, when: "{{{{ event.name == 'step.done' }}}}"}}
- step: end
  tool: {{kind: noop}}
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run that failed, and whose every text wants to be markup."""
    shell = Shell(tmp_path_factory.mktemp("report"))
    done = shell.noetl("run", shell.write("evil", WORKFLOW), "--html", "page.html")
    assert done.returncode == 1
    assert "report: page.html" in done.stderr
    return shell.folder / "page.html"


@pytest.fixture
def page(report: Path, browser: Browser) -> Iterator[Browser]:
    browser.visit(report.as_uri())
    yield browser
    assert browser.trouble == []


def test_what_the_log_holds_cannot_act(page: Browser) -> None:
    assert page.evaluate("window.hit") is None
    assert page.evaluate("document.querySelectorAll('img, iframe').length") == 0
    assert page.evaluate("document.scripts.length") == 1
    assert "onerror=alert(2)" in page.evaluate("document.body.textContent")


def test_a_script_that_got_in_would_not_run(page: Browser) -> None:
    """The second line of defence: the page's own policy."""
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<p id=new></p>');"
        "const s = document.createElement('script'); s.textContent = 'window.hit=2';"
        "document.body.append(s)"
    )
    assert page.evaluate("window.hit") is None
    assert "Content Security Policy" in page.trouble[0]
    page.forget()


def test_a_click_on_a_step_opens_its_detail(page: Browser) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = false)")
    page.evaluate(
        "document.querySelector('.canvas a[aria-label^=store]')"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    page.evaluate(
        "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))"
    )
    assert page.evaluate("location.hash") == "#step-2"
    assert page.evaluate("document.getElementById('step-2').open") is True


def test_the_keyboard_reaches_everything(page: Browser) -> None:
    page.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the steps"
    names = set()
    for _ in range(60):
        page.press("Tab")
        names.add(
            page.evaluate(
                "document.activeElement.closest('nav,.canvas,.gantt,"
                ".card,form')?.className ?? ''"
            )
        )
    assert {"canvas", "gantt", "filters"} <= names


def test_a_wide_graph_can_be_made_to_fit(report: Path, browser: Browser) -> None:
    browser.visit(report.as_uri(), width=200)
    spare = "(c => c.scrollWidth - c.clientWidth)(document.querySelector('.canvas'))"
    hidden = "document.getElementById('fit').parentElement.hidden"
    wide = browser.evaluate(spare)
    browser.evaluate("document.getElementById('fit').click()")

    assert (wide > 0, browser.evaluate(spare)) == (True, 0)
    assert browser.evaluate(hidden) is False


def test_events_can_be_filtered(page: Browser) -> None:
    shown = "document.querySelectorAll('#events tbody tr:not([hidden])').length"
    everything = page.evaluate(shown)
    page.evaluate(
        "const f = document.getElementById('filter'); f.value = 'STORE task.done';"
        "f.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    assert (everything > 100, page.evaluate(shown)) == (True, 1)
    assert "1 of" in page.evaluate("document.getElementById('found').textContent")


def test_it_can_be_read_without_a_script(report: Path, browser: Browser) -> None:
    browser.visit(report.as_uri(), script=False)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)

    assert (
        browser.evaluate("getComputedStyle(document.querySelector('.filters')).display")
        == "none"
    )
    assert "exit code 7" in browser.evaluate("document.body.innerText")
    assert browser.trouble == []


@pytest.mark.parametrize("width", [360, 720, 1280])
def test_no_page_is_wider_than_its_window(
    report: Path, browser: Browser, width: int
) -> None:
    browser.visit(report.as_uri(), width=width)
    wide = browser.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0


CONTRAST = """
(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => {
      v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const c = parse(getComputedStyle(node).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  document.querySelectorAll('details').forEach((d) => { d.open = true; });
  const bad = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || node.closest('svg, script, style')) continue;
    if (!node.getClientRects().length) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.add(`${node.tagName}.${node.className}: ${ratio.toFixed(2)}`);
  }
  return [...bad];
})()
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_has_contrast(report: Path, browser: Browser, dark: bool) -> None:
    """WCAG 2 AA: at least 4.5 to 1."""
    browser.visit(report.as_uri(), dark=dark)
    assert browser.evaluate(CONTRAST) == []


def test_on_paper_nothing_is_cut_off(report: Path, browser: Browser) -> None:
    browser.visit(report.as_uri(), media="print")
    hidden = browser.evaluate(
        "[...document.querySelectorAll('nav, .scroll, .canvas, pre')].map("
        "(e) => getComputedStyle(e)).filter((s) => s.display !== 'none'"
        " && s.maxHeight !== 'none').length"
    )
    assert hidden == 0
    assert (
        browser.evaluate("getComputedStyle(document.querySelector('nav')).display")
        == "none"
    )


# -- the commands ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run", "p.yaml", "--html", "no/such.html"], "/no does not exist"),
        (["run", "p.yaml", "--html", "."], "this is a folder; name a file in it"),
        (["run", "p.yaml", "--html", "-"], "name a file"),
        (["run", "p.yaml", "--html", ""], "name a file"),
        (["show", "nobody", "--html"], "no execution 'nobody'"),
        (["show", "--html", "last"], "--html takes 'last' as its file"),
        (["show", "last", "--html", "x.html", "--json"], "--json contradicts --html"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_runs(
    shell: Shell, args: list[str], said: str
) -> None:
    shell.write("p", "- {step: a, tool: {kind: noop}}")
    done = shell.noetl(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert shell.executions() == []


def test_a_page_is_written_beside_or_to_where_it_is_asked_for(shell: Shell) -> None:
    document = shell.run(shell.write("p", "- {step: a, tool: {kind: noop}}"))
    name = f"{document['execution_id']}.html"

    assert shell.noetl("show", "last", "--html").returncode == 0
    written = (shell.folder / name).read_text()
    assert shell.noetl("show", "last", "--html", "-").stdout == written
    assert [path.name for path in shell.folder.glob(".*html*")] == []


def test_a_playbook_that_is_not_valid_has_a_page_too(shell: Shell) -> None:
    shell.write("p", "- {step: a, tool: {kind: noop}, nxet: {}}")
    done = shell.noetl("run", "p.yaml", "--html", "page.html")
    page = (shell.folder / "page.html").read_text()
    assert done.returncode == 2
    assert "playbook.invalid" in page
    assert "nxet" in page
