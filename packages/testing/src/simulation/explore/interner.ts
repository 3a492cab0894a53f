/** An interner: assigns numbers to the strings and booleans that occur. */
export class Interner {
  readonly #words: (string | boolean)[] = []
  readonly #numbers = new Map<string | boolean, number>()

  numberOf(word: string | boolean): number {
    const known = this.#numbers.get(word)
    if (known !== undefined) return known
    const number = this.#words.push(word) - 1
    this.#numbers.set(word, number)
    return number
  }

  of(number: number): string | boolean {
    return this.#words[number] ?? false
  }
}
