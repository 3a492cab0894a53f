/**
 * The set of known states, by 64 bits of each. Two states with the same bits would be treated as one. Among n states
 * the probability of any collision is about n² / 2^65: three in a million for eleven million states.
 */
export class Fingerprints {
  #slots = new Uint32Array(1 << 13)
  size = 0

  /** Adds a state. Returns whether it was new. */
  add(low: number, high: number): boolean {
    if (this.size * 10 > this.#slots.length * 3) this.#grow()
    const isNew = this.#put(low, high)
    if (isNew) this.size += 1
    return isNew
  }

  #put(low: number, high: number): boolean {
    const slots = this.#slots
    const last = slots.length - 2
    let at = (low << 1) & last
    while (slots[at] !== 0 || slots[at + 1] !== 0) {
      if (slots[at] === low && slots[at + 1] === high) return false
      at = (at + 2) & last
    }
    slots[at] = low
    slots[at + 1] = high
    return true
  }

  #grow(): void {
    const before = this.#slots
    this.#slots = new Uint32Array(before.length * 2)
    for (let at = 0; at < before.length; at += 2) {
      const [low = 0, high = 0] = [before[at], before[at + 1]]
      if (low !== 0 || high !== 0) this.#put(low, high)
    }
  }
}

/** Returns a 64-bit hash of some bytes, never 0. */
export function hashOf(bytes: Uint8Array): readonly [low: number, high: number] {
  let one = 0x9e3779b9
  let other = 0x85ebca6b
  for (const byte of bytes) {
    one = Math.imul(one ^ byte, 0x01000193)
    one ^= one >>> 15
    other = Math.imul(other + byte, 0xc2b2ae35)
    other = (other << 13) | (other >>> 19)
  }
  one = mixed(one ^ bytes.length)
  other = mixed(other + one)
  return [one === 0 ? 1 : one, other]
}

function mixed(value: number): number {
  let bits = value ^ (value >>> 16)
  bits = Math.imul(bits, 0x21f0aaad)
  bits ^= bits >>> 15
  bits = Math.imul(bits, 0x735a2d97)
  return (bits ^ (bits >>> 15)) >>> 0
}
