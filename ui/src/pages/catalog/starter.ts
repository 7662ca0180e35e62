// The text of a new playbook.
export const STARTER = `apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: hello
  path: examples/hello
workload:
  who: world
workflow:
  - step: start
    tool:
      kind: noop
      result: "hello {{ workload.who }}"
`;
