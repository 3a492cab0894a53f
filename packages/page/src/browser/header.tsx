import { useEffect, useRef } from 'preact/hooks'
import type { ReplicasAnswer } from '../model/answers.ts'
import { ago, duration } from '../model/text.ts'
import type { PageProps } from './app.tsx'
import { now } from './clock.ts'
import { Name } from './name.tsx'
import { useTicks } from './ticks.ts'

export function Header({ controller }: PageProps) {
  const { identity, link, health, signIn } = controller.state
  const text = { live: 'Live', opening: 'Connecting', resting: 'Resting', behind: 'Behind' }[link.kind]
  return (
    <header class="top">
      <a class="brand" href="#/">
        <span class="mark" aria-hidden="true">
          <i />
          <i />
          <i />
        </span>
        Tenure
      </a>
      <Health health={health} />
      <span class="space" />
      {identity && !identity.admin && <span class="chip">read-only</span>}
      {identity && controller.hasToken && (
        <button type="button" class="plain" onClick={() => controller.signOut()}>
          Forget token
        </button>
      )}
      {!signIn && (
        <span class={`link ${link.kind}`} role="status" aria-label={`Connection: ${text}`}>
          <span class="lamp" aria-hidden="true" />
          {text}
        </span>
      )}
    </header>
  )
}

/** Warns that the page may be outdated, and shows since when. */
export function Banner({ controller }: PageProps) {
  useTicks(1_000)
  const { link, signIn } = controller.state
  if (link.kind !== 'behind' || signIn) return null
  const ms = now().monotonicMs - link.sinceMs
  return (
    <p class="banner" role="alert">
      <strong>Behind.</strong> {link.why} Retrying. <span aria-hidden="true">Last answer: {ago(ms)}.</span>
    </p>
  )
}

type Health = ReplicasAnswer | 'hidden' | 'unreachable' | undefined

function Health({ health }: { readonly health: Health }) {
  const box = useRef<HTMLDetailsElement>(null)
  useEffect(() => {
    const close = (event: Event) => {
      const isOutside = event.target instanceof Node && !box.current?.contains(event.target)
      const isEscape = event instanceof KeyboardEvent && event.key === 'Escape'
      if (box.current && (isEscape || (isOutside && event.type === 'pointerdown'))) box.current.open = false
    }
    for (const type of ['pointerdown', 'keydown']) document.addEventListener(type, close)
    return () => {
      for (const type of ['pointerdown', 'keydown']) document.removeEventListener(type, close)
    }
  }, [])
  if (health === undefined || health === 'hidden') return null
  if (health === 'unreachable') return <span class="health bad">service unreachable</span>
  const { storage, replicas, active } = health
  const followers = (replicas ?? []).filter(({ role }) => role === 'follower').length
  const isIdle = replicas !== null && active === null
  const count = followers > 0 ? `, ${followers + (active === null ? 0 : 1)} replicas` : ''
  const text = storage.healthy ? (isIdle ? 'no active replica' : 'healthy') : 'does not answer'
  return (
    <details class="health-box" ref={box}>
      <summary
        class={storage.healthy && !isIdle ? 'health' : 'health bad'}
        aria-label={`Storage ${storage.kind}: ${text}${count}`}
      >
        <span class="lamp" aria-hidden="true" />
        {storage.kind} <span class="wide">{`${text}${count}`}</span>
      </summary>
      <div class="health-more">
        <p>
          Storage <strong>{storage.kind}</strong>: {storage.healthy ? 'answers' : 'does not answer'}. Answered by{' '}
          <Name of={health.answered_by} />.
        </p>
        {replicas && (
          <table>
            <caption class="heard">Replicas</caption>
            <thead>
              <tr>
                <th>Replica</th>
                <th>Role</th>
                <th>Since</th>
                <th class="number">Behind</th>
              </tr>
            </thead>
            <tbody>
              {replicas.map(({ replica, role, since_ms, changes_behind, feed_lag_ms }) => (
                <tr key={replica}>
                  <td>
                    <Name of={replica} />
                  </td>
                  <td>{role}</td>
                  <td>{since_ms === null ? 'not connected' : ago(now().wallMs - since_ms)}</td>
                  <td class="number">
                    {changes_behind === null ? '?' : changes_behind}
                    {feed_lag_ms ? ` (${duration(feed_lag_ms)})` : ''}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        {isIdle && <p class="bad">No replica is active: nothing is granted or renewed.</p>}
      </div>
    </details>
  )
}
