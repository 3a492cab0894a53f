import { useEffect, useRef } from 'preact/hooks'
import { remainingOf, type ShownLease } from '../model/elections.ts'
import { duration, leftText } from '../model/text.ts'
import { now } from './clock.ts'
import { onTick } from './ticks.ts'

/** A leader renews after a third of its lease. If less than this fraction is left, the leader has missed a renewal. */
const littlePart = 0.4

/**
 * A bar that shows the time left on a lease. It counts down on the viewer's own clock, whether or not the server
 * answers.
 */
export function LeaseBar({ lease, isBehind }: { readonly lease: ShownLease; readonly isBehind: boolean }) {
  const meter = useRef<HTMLSpanElement>(null)
  const fill = useRef<HTMLSpanElement>(null)
  const text = useRef<HTMLSpanElement>(null)
  useEffect(() => {
    const draw = () => {
      const { ms, part } = remainingOf(lease, now().monotonicMs)
      const left = ms > 0 ? leftText(ms) : 'expired'
      if (text.current && text.current.textContent !== left) text.current.textContent = left
      if (fill.current) {
        fill.current.style.transform = `scaleX(${part.toFixed(4)})`
        fill.current.classList.toggle('little', part < littlePart)
      }
      meter.current?.setAttribute('aria-valuenow', String(Math.round(ms / 1_000)))
      meter.current?.setAttribute('aria-valuetext', `${left} of ${duration(lease.ttlMs)}`)
    }
    draw()
    return onTick(draw)
  }, [lease])
  return (
    <span class={isBehind ? 'lease behind' : 'lease'}>
      <span
        ref={meter}
        class="bar"
        role="meter"
        aria-label="Lease left"
        aria-valuemin={0}
        aria-valuemax={Math.round(lease.ttlMs / 1_000)}
      >
        <span ref={fill} class="fill" />
      </span>
      <span ref={text} class="left" aria-hidden="true" />
    </span>
  )
}
