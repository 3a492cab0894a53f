import { leaseDurationMs, nameOf, type Candidate, type Scene } from './scene.ts'
import { machineMs, seconds } from '../../packages/cli/src/commands/demo/fleet.ts'
import { bar, bold, color, dim, Screen } from '../../packages/cli/src/shared/terminal.ts'

const barWidth = 20

/** The live view in the terminal. */
export class View {
  readonly #screen = new Screen()
  readonly #history: string[] = []

  open(): void {
    this.#screen.open()
  }

  close(): void {
    this.#screen.close()
  }

  add(line: string): void {
    this.#history.push(line)
  }

  /** `next` is the next automatic fault and its time. */
  draw(scene: Scene, next: string): void {
    const above = [
      bold('Tenure: one leader across two clusters') + dim('  (two API servers, and one global etcd)'),
      'A candidate knows only its own cluster. A controller there asks the global etcd for it',
      `and writes the answer into a MultiClusterLease. The lease lasts ${seconds(leaseDurationMs)}.`,
      '',
      dim('candidate    pid      role      term  lease: how long it may lead, or must wait'),
      ...scene.candidates.map(row),
      '',
      dim('kubectl get mcl       leader      cluster  term'),
      ...scene.clusters.map((cluster) => {
        const { leader = '', cluster: of = '', term = 0 } = scene.shown.get(cluster.name) ?? {}
        const cells = `${(leader || '-').padEnd(12)}${(of || '-').padEnd(9)}${String(term || '-').padStart(4)}`
        const line = `cluster ${cluster.name.padEnd(14)}${cells}`
        return scene.cutOff.has(cluster) ? color('yellow', `${line}  cut off`) : line
      }),
      '',
      bold('What happened'),
    ]
    const keys = [
      ['s', 'stop'],
      ['k', 'kill the leader'],
      ['d', 'kill its controller'],
      ['c', 'cut its cluster off'],
      ['q', 'quit'],
    ].map(([key = '', does = '']) => `${bold(key)} ${does}`)
    this.#screen.draw(above, this.#history, ['', keys.join('  '), dim(next)])
  }
}

function row(candidate: Candidate): string {
  const { child, condition, leads, status } = candidate
  const name = nameOf(candidate).padEnd(13)
  if (!child || condition === 'gone') return dim(`${name}-        gone, starts again in a moment`)
  const term = String(status?.term || '-').padStart(4)
  const leftMs = status ? Math.max(0, status.leaseEndsInMs - (machineMs() - status.atMs)) : 0
  const left = `${bar(leftMs / leaseDurationMs, barWidth)} ${seconds(leftMs)}`
  const line = (role: string) => `${name}${String(child.pid).padEnd(9)}${role.padEnd(10)}${term}  ${left}`
  if (condition === 'stopping') return dim(line('stopping'))
  return leads > 0 ? color('green', line('LEADER')) : line(status?.isWaiting ? 'standby' : 'asks')
}
