import { styleText } from 'node:util'

const escape = '\u001b['
// Switches to the alternate screen, hides the cursor and turns off line wrapping.
const opening = `${escape}?1049h${escape}?25l${escape}?7l`
const closing = `${escape}?7h${escape}?25h${escape}?1049l`

/** A screen that is redrawn in place with plain escape codes, and restored at the end. */
export class Screen {
  #isOpen = false

  open(): void {
    this.#isOpen = true
    process.stdout.write(opening)
    // Restore the terminal no matter how this program exits.
    process.once('exit', () => this.close())
  }

  close(): void {
    if (this.#isOpen) process.stdout.write(closing)
    this.#isOpen = false
  }

  /** Draws the newest lines of `history` in the space that `above` and `below` leave. */
  draw(above: readonly string[], history: readonly string[], below: readonly string[]): void {
    if (!this.#isOpen) return
    const rows = process.stdout.rows || 24
    // If space is tight, leave out empty lines.
    const isTight = above.length + below.length >= rows
    const [head, foot] = isTight ? [above.filter(Boolean), below.filter(Boolean)] : [above, below]
    const room = Math.max(0, rows - head.length - foot.length)
    const newest = room === 0 ? [] : history.slice(-room)
    const filled = [...head, ...newest, ...Array<string>(room - newest.length).fill(''), ...foot]
    const lines = filled.slice(0, rows)
    process.stdout.write(`${escape}H${lines.map((line) => `${line}${escape}K`).join('\n')}${escape}J`)
  }
}

/** Calls back for each key. Ctrl-C is also reported as a key. */
export function listenToKeys(onKey: (key: string) => void): void {
  const { stdin } = process
  if (!stdin.isTTY) return
  stdin.setRawMode(true)
  stdin.setEncoding('utf8')
  stdin.on('data', (keys: string) => {
    for (const key of keys) onKey(key)
  })
}

export const interruptKey = '\u0003'

/** Draws a bar. `share` is the filled fraction. */
export function bar(share: number, width: number): string {
  const filled = Math.min(width, Math.max(0, Math.round(share * width)))
  return '█'.repeat(filled) + '░'.repeat(width - filled)
}

const plain = Boolean(process.env['NO_COLOR'])

export function color(format: 'green' | 'yellow' | 'red' | 'bold' | 'dim', text: string): string {
  return plain ? text : styleText(format, text)
}

export function bold(text: string): string {
  return color('bold', text)
}

export function dim(text: string): string {
  return color('dim', text)
}
