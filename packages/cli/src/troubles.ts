import { now } from './clock.ts'

const repeatedMs = 60_000

/** The same trouble comes with every try: it is worth telling once a minute, and anew after things went well. */
export class Troubles {
  #last: { readonly text: string; readonly ofRenewal: boolean; readonly atMs: number } | undefined

  /** What went wrong last, if that is so still. */
  get last(): string | undefined {
    return this.#last?.text
  }

  /** Whether it is to be told. */
  isNew(text: string, { ofRenewal }: { readonly ofRenewal: boolean }): boolean {
    const atMs = now().machineMs
    if (this.#last?.text === text && atMs - this.#last.atMs < repeatedMs) return false
    this.#last = { text, ofRenewal, atMs }
    return true
  }

  /** Something went well. While renewals do, other calls may go on failing. Gives whether this ends a trouble. */
  end({ ofRenewal }: { readonly ofRenewal: boolean }): boolean {
    if (!this.#last || (ofRenewal && !this.#last.ofRenewal)) return false
    this.#last = undefined
    return true
  }
}
