import { seconds, machineMs, inMs } from '../../packages/cli/src/commands/demo/fleet.ts'
import { interruptKey, listenToKeys } from '../../packages/cli/src/shared/terminal.ts'
import { startClusters, type Clusters } from '../../test/multicluster/clusters.ts'
import { harms, Scene, type Harm } from './scene.ts'
import { View } from './view.ts'

const keys: Readonly<Record<string, Harm>> = { s: 'stop', k: 'kill', d: 'controller', c: 'cut' }
const words: Readonly<Record<Harm, string>> = {
  stop: 'stop the leader',
  kill: 'kill the leader',
  controller: 'kill its controller',
  cut: 'cut its cluster off',
}
const order = Object.keys(harms) as Harm[]
const signals = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const
const harmEveryMs = 5_000
const plainHarmEveryMs = 2_000

/**
 * Runs two clusters and injects faults: periodically, or when a key is pressed. Without a terminal, each fault occurs
 * once.
 */
export async function demo(): Promise<void> {
  const live = process.stdout.isTTY
  const startedAtMs = machineMs()
  const view = new View()
  /** Everything that has been started so far. */
  const running: { clusters?: Clusters; scene?: Scene; tick?: NodeJS.Timeout } = {}
  let harmed = 0
  let nextAtMs = Infinity
  let ending = false

  const log = (text: string) => {
    const line = `[${seconds(machineMs() - startedAtMs).padStart(6)}] ${text}`
    if (running.scene && live) view.add(line)
    else console.log(line)
  }
  const end = async (code: number) => {
    // A second Ctrl-C, or one before everything runs, exits without waiting. All started processes end with this one.
    const { clusters, scene, tick } = running
    if (ending || !clusters) process.exit(code)
    ending = true
    clearInterval(tick)
    view.close()
    console.log('stopping the candidates and the servers ...')
    await scene?.end()
    await clusters.stop()
    if (scene) console.log(summary(scene, machineMs() - startedAtMs))
    process.exit(code)
  }
  process.on('exit', () => view.close())
  for (const [signal, code] of Object.entries(signals)) process.on(signal, () => void end(code))
  // The reader of the output is gone.
  process.stdout.on('error', () => void end(0))

  console.log('Tenure: one leader across two clusters. Two API servers, each with an etcd, and one global etcd.')
  const clusters = await startClusters({ names: ['east', 'west'], controllers: 2, onProgress: log })
  running.clusters = clusters
  const scene = new Scene(clusters, log, () => {
    if (!live && harmed === order.length) return void end(0)
    nextAtMs = machineMs() + (live ? harmEveryMs : plainHarmEveryMs)
  })
  running.scene = scene
  const harm = (how: Harm) => {
    nextAtMs = Infinity
    void scene.harm(how)
  }
  if (live) {
    view.open()
    listenToKeys((key) => {
      const how = keys[key]
      if (how) harm(how)
      if (key === 'q' || key === interruptKey) void end(0)
    })
  }
  scene.start()
  let beats = 0
  running.tick = setInterval(() => {
    const nowMs = machineMs()
    const next = order[harmed % order.length] ?? 'kill'
    if (live && beats++ % 5 === 0) void scene.look()
    if (live)
      view.draw(scene, nextAtMs === Infinity ? '' : `next fault: ${words[next]} in ${seconds(nextAtMs - nowMs)}`)
    if (nowMs < nextAtMs || !scene.leader) return
    harmed += 1
    harm(next)
  }, 100)
}

function summary({ results, highestTerm }: Scene, tookMs: number): string {
  const times = order.flatMap((harm) => {
    const took = results.flatMap((one) => (one.harm === harm && one.tookMs !== undefined ? [one.tookMs] : []))
    const median = took.toSorted((a, b) => a - b)[Math.floor(took.length / 2)]
    return median === undefined ? [] : [`${words[harm]}: ${inMs(median)}`]
  })
  const details = times.length > 0 ? ` From the fault to the next leader, median: ${times.join(', ')}.` : ''
  return `${seconds(tookMs)}, terms 1 to ${highestTerm}.${details}`
}
