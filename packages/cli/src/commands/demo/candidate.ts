/** One candidate of `tenure demo`, in its own process. It campaigns and reports to its parent. */
import { messageOf } from '@tenure/internal/message'
import { Elector, type ElectionEvent, type Explanation } from 'tenure'
import { fileStore } from 'tenure/stores/file'
import { every, now } from '../../shared/clock.ts'
import { NetworkLink } from './network-link.ts'

/** An order from the parent process. */
export type CandidateOrder = 'stop' | 'cut' | 'mend'

/** A report to the parent process. `atMs` is on a clock that all processes of the machine share. */
export type Report = { readonly atMs: number } & (
  | {
      readonly type: 'status'
      readonly isLeader: boolean
      /** The term of the last record seen, or 0 if there is none. */
      readonly term: number
      readonly leaseEndsInMs: number
      readonly summary: string
    }
  | { readonly type: 'elected'; readonly term: number }
  | { readonly type: 'lost'; readonly term: number; readonly reason: string }
  | { readonly type: 'error'; readonly message: string }
)

type News<R = Report> = R extends unknown ? Omit<R, 'atMs'> : never

const [, , directory = '', identity = '', leaseDurationMs] = process.argv

const cable = new NetworkLink(fileStore({ directory }))
const elector = new Elector({
  store: cable.store,
  election: 'demo',
  identity,
  leaseDurationMs: Number(leaseDurationMs),
  observer: { onEvent },
})

function onEvent(event: ElectionEvent): void {
  if (event.type === 'elected') report({ type: 'elected', term: event.term })
  if (event.type === 'lost') report({ type: 'lost', term: event.term, reason: event.reason })
  // While the link is cut every call fails, so these errors are not worth reporting.
  if ((event.type === 'error' || event.type === 'renew-failed') && !cable.isCut) {
    report({ type: 'error', message: messageOf(event.error) })
  }
}

function reportStatus(): void {
  const explanation = elector.explain()
  const { isLeader, leaseEndsInMs = 0 } = explanation
  report({ type: 'status', isLeader, term: elector.leader()?.term ?? 0, leaseEndsInMs, summary: inShort(explanation) })
}

/** Describes the usual states within 80 columns. Other states use the library's summary. */
function inShort({ phase, isLeader, term, leader, leaseEndsInMs = 0, summary }: Explanation): string {
  const left = `${(leaseEndsInMs / 1000).toFixed(1)} s`
  if (cable.isCut && isLeader) return `leads term ${term}, cut off: stops in ${left}`
  if (cable.isCut) return 'cut off, does not lead'
  if (isLeader) return `leads term ${term}: ${left} unless renewed`
  if (phase === 'standby' && leader) return `waits for ${leader.holder}, term ${leader.term}: ${left} unless renewed`
  return summary
}

function report(news: News): void {
  if (process.connected) process.send?.({ ...news, atMs: now().machineMs } satisfies Report)
}

async function stop(): Promise<void> {
  await elector.stop()
  await cable.store.close?.()
  process.exit()
}

process.on('message', (order: CandidateOrder) => {
  if (order === 'stop') void stop()
  else cable.isCut = order === 'cut'
})
// Without its parent, nothing else would stop this process.
process.on('disconnect', () => process.exit())
// Ctrl-C reaches the whole process group. The parent decides how to stop its candidates.
process.on('SIGINT', () => {})

elector.start()
every(100, reportStatus)
