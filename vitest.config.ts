import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts'],
    pool: 'threads',
    testTimeout: 30_000,
    hookTimeout: 120_000,
  },
})
