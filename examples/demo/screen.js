// The live view: a screen that is drawn anew in place, with plain escape codes.
import { styleText } from 'node:util'
import { leaseDurationMs, machineMs, seconds } from './fleet.js'

const barWidth = 20
const escape = '\u001b['
// The alternate screen, without a cursor and without wrapping of long lines.
const open = `${escape}?1049h${escape}?25l${escape}?7l`
const close = `${escape}?7h${escape}?25h${escape}?1049l`

export class Screen {
  /** @type {string[]} */
  #log = []
  #fleet
  #isOpen = false

  /** @param {import('./fleet.js').Fleet} fleet */
  constructor(fleet) {
    this.#fleet = fleet
  }

  open() {
    this.#isOpen = true
    process.stdout.write(open)
  }

  /** Gives the terminal back as it was. */
  close() {
    if (this.#isOpen) process.stdout.write(close)
    this.#isOpen = false
  }

  /** @param {string} line */
  add(line) {
    this.#log.push(line)
    this.draw()
  }

  /** @param {string} [next] what happens by itself, and when */
  draw(next = '') {
    if (!this.#isOpen) return
    const { members } = this.#fleet
    const above = [
      bold('Tenure: three processes, one leader') + dim('  (they share a folder; no server runs)'),
      `The leader holds a lease of ${seconds(leaseDurationMs)} and renews it every second.`,
      'When it is gone, another takes over, with a higher term: whatever the old one',
      'still sends can be told from what the new one sends.',
      '',
      dim('name     pid      role      term  lease: how long it may lead, or must wait'),
      ...members.map(row),
      '',
      ...members.flatMap(({ name, condition, status }) =>
        condition === 'runs' && status ? [dim(`${name}: ${status.summary}`)] : [dim(`${name}: -`)],
      ),
      '',
      bold('What happened'),
    ]
    const below = [
      '',
      `${bold('k')} kill  ${bold('p')} pause  ${bold('s')} stop the leader   ${bold('q')} quit   ${dim(next)}`,
      dim('Next: npm test runs everything, README.md shows how to use it in your own code.'),
    ]
    const room = Math.max(1, (process.stdout.rows || 24) - above.length - below.length)
    const log = this.#log.slice(-room)
    const lines = [...above, ...log, ...Array(room - log.length).fill(''), ...below]
    process.stdout.write(`${escape}H${lines.map((line) => `${line}${escape}K`).join('\n')}${escape}J`)
  }
}

/** @param {import('./fleet.js').Member} member */
function row({ name, child, condition, leads, status }) {
  if (!child || condition === 'gone') return dim(`${name}   -        gone, starts again in a moment`)
  const pid = String(child.pid).padEnd(9)
  const term = String(status?.term || '-').padStart(4)
  // What was left when it told, less the time since: a paused process tells nothing, but its lease runs out.
  const leftMs = status ? Math.max(0, status.leaseEndsInMs - (machineMs() - status.atMs)) : 0
  const filled = Math.min(barWidth, Math.round((leftMs / leaseDurationMs) * barWidth))
  const bar = `${'█'.repeat(filled)}${'░'.repeat(barWidth - filled)} ${seconds(leftMs)}`
  const line = (/** @type {string} */ role) => `${name}   ${pid}${role.padEnd(10)}${term}  ${bar}`
  if (condition === 'paused') return color('yellow', line('paused'))
  if (condition === 'stopping') return dim(line('stopping'))
  return leads > 0 ? color('green', line('LEADER')) : line('standby')
}

const plain = Boolean(process.env['NO_COLOR'])

/**
 * @param {'green' | 'yellow' | 'bold' | 'dim'} format
 * @param {string} text
 */
function color(format, text) {
  return plain ? text : styleText(format, text)
}

/** @param {string} text */
function bold(text) {
  return color('bold', text)
}

/** @param {string} text */
function dim(text) {
  return color('dim', text)
}
