import { useState } from 'preact/hooks'
import { colorOf } from '../model/palette.ts'
import { standingText, termText, visible } from '../model/text.ts'
import type { Terms } from '../model/terms.ts'
import { bandsIn, marksIn, type Band } from '../model/time-line.ts'
import type { Controller } from './controller.ts'
import { now } from './clock.ts'
import { clockTime, zoneMs } from './times.ts'
import { useTicks } from './ticks.ts'

/** The spans that a timeline can show, with their labels. */
export const spans = [
  { ms: 300_000, text: '5 min' },
  { ms: 900_000, text: '15 min' },
  { ms: 3_600_000, text: '1 h' },
  { ms: 21_600_000, text: '6 h' },
  { ms: 86_400_000, text: '24 h' },
] as const

interface TimeLineProps {
  readonly controller: Controller
  readonly terms: Terms
  readonly spanMs: number
}

function useRange({ controller, spanMs }: TimeLineProps) {
  // Redraw whenever the small timeline has moved by about one pixel.
  useTicks(Math.max(1_000, spanMs / 300))
  const toMs = now().wallMs + controller.state.elections.aheadMs
  return { fromMs: toMs - spanMs, toMs }
}

/** The small timeline in a row of the list. */
export function SmallTimeLine(props: TimeLineProps) {
  const range = useRange(props)
  const bands = bandsIn(props.terms, range, props.controller.knownMs)
  const last = bands.at(-1)?.term
  const label = `${bands.length} ${bands.length === 1 ? 'term' : 'terms'}; ${standingText(last?.end === undefined ? last : undefined)}`
  return (
    <span class="line small" role="img" aria-label={label}>
      <Bands {...props} bands={bands} knownMs={props.controller.knownMs} />
    </span>
  )
}

/** The large timeline, with time marks and names. It explains a band on hover and focus. */
export function TimeLine(props: TimeLineProps) {
  const range = useRange(props)
  const [told, tell] = useState<string | undefined>(undefined)
  const bands = bandsIn(props.terms, range, props.controller.knownMs)
  return (
    <div class="time-line">
      <div class="line large" role="group" aria-label="Terms, oldest first">
        <Bands {...props} bands={bands} knownMs={props.controller.knownMs} onTell={tell} />
      </div>
      <div class="marks" aria-hidden="true">
        {marksIn(range, zoneMs(range.toMs)).map(({ atMs, x }) => (
          <span key={atMs} style={{ left: `${x * 100}%` }}>
            {clockTime(atMs).slice(0, 5)}
          </span>
        ))}
      </div>
      <p class="told" aria-live="polite">
        {told ?? (bands.length === 0 ? 'Nothing is known about this period.' : '\u00a0')}
      </p>
      <Legend />
    </div>
  )
}

function Legend() {
  return (
    <p class="legend">
      <span class="key resigned">handed over</span>
      <span class="key expired">expired</span>
      <span class="key deleted">ended by force</span>
      <span class="key unseen">end unknown</span>
    </p>
  )
}

interface BandsProps extends TimeLineProps {
  readonly bands: readonly Band[]
  readonly knownMs: number
  readonly onTell?: (text: string | undefined) => void
}

function Bands({ bands, knownMs, onTell }: BandsProps) {
  return (
    <>
      {bands.map(({ term, x, width, endsHere }) => {
        const text = termText(term, knownMs, clockTime)
        const kind = `band c${colorOf(term.node)} ${endsHere ? `ended ${term.end}` : ''}`
        const style = { left: `${x * 100}%`, width: `${width * 100}%` }
        if (!onTell) return <span key={term.term} class={kind} style={style} title={text} />
        const tell = () => onTell(text)
        const quiet = () => onTell(undefined)
        return (
          <button
            key={term.term}
            type="button"
            class={kind}
            style={style}
            aria-label={text}
            onPointerEnter={tell}
            onPointerLeave={quiet}
            onFocus={tell}
            onBlur={quiet}
          >
            <span class="inside">{width > 0.06 ? visible(term.node) : ''}</span>
          </button>
        )
      })}
    </>
  )
}
