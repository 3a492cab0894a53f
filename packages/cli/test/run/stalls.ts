import { vi } from 'vitest'
import type { Wrapper } from './scene.ts'

export const lease = ['--ttl', '1500ms']

export async function tells({ output }: Wrapper, text: string): Promise<void> {
  await vi.waitUntil(() => output.error.includes(text), { timeout: 20_000 })
}
