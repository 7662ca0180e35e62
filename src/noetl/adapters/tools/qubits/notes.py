"""What the reference says about the kind, beyond its declaration."""

NOTES = """
### Operations

| operation | needs | result |
|---|---|---|
| `submit` | `circuit` or `file` | the job: `{job, provider, status}` |
| `status` | `job` | the job, with its status now |
| `result` | `job` | the job, with `counts`, `shots`, `seed` and what else is known |
| `cancel` | `job` | the job, with the status `cancelled`, or how it ended before |
| `run` | `circuit` or `file` | as `result`, when it is done |

A status is `queued`, `running`, `done`, `failed` or `cancelled`. `job` is what `submit`
returned, as a whole, or the id in it. `result` of a job that is not over is the error
`quantum.pending`, which is retryable; of one that failed, what it failed with.

`run` waits, and holds a slot meanwhile. For jobs that take minutes use `submit`, then
`status` with a rule that retries after a delay: a delay of a second or more gives the
slot back ([Quantum profile](../profiles/quantum.md)).

Submitting again for the same reason, after a crash or by a rule that retries, gives the
job that is there already.

### Circuits

OpenQASM 3 or 2, at most 1 MiB; `file` is a path below the playbook's folder. What a
circuit declares as `input float theta;` is filled from `params`, a mapping by names, or
a list in the order of the declarations. The only include files are `stdgates.inc`
and `qelib1.inc`. In a bit string of `counts` the last bit is bit 0, and registers are
separated by blanks.

### The local simulator

Provider `local` simulates on this machine, in a process that `spec.memory` and
`spec.timeout` limit, one thread per circuit. With the same `seed` the counts are the
same, whenever and wherever it is run with the same versions; without one a seed is
drawn, and reported. It takes up to 1,000,000 shots (1,024 without `shots`), and as many
qubits as `spec.memory` has room for: 26 in 1 GiB. `options: {method: stabilizer}` has
room for hundreds of qubits if the circuit has Clifford gates alone; other methods are
`automatic`, `statevector` and `matrix_product_state`.

Jobs are files of `NOETL_HOME/quantum`. Every process that is asked for a job finds it,
and goes on with one whose process has died. They are removed 30 days after their end.

Other providers come from plug-ins.
"""
