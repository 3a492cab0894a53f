import { vi } from 'vitest'
import type { Wrapper } from './scene.ts'

/** A lease that is long enough to be renewed in time on a busy machine. */
export const lease = ['--ttl', '3s']

export async function waitForOutput({ output }: Wrapper, text: string): Promise<void> {
  await vi.waitUntil(() => output.error.includes(text), { timeout: 20_000 })
}
