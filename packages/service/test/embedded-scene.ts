import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fakeClock, type FakeClock } from 'tenure/testing'
import { onTestFinished } from 'vitest'
import { EmbeddedState, type EmbeddedStateOptions } from '../src/embedded/embedded-state.ts'
import type { Change } from '../src/feed.ts'
import type { CampaignClaim, Verdict } from '../src/state.ts'

const { signal } = new AbortController()

export interface Scene {
  readonly directory: string
  readonly clock: FakeClock
  readonly changes: string[]
  state: EmbeddedState
  /** As after a crash: whatever is not on disk is gone. */
  restart(more?: Partial<EmbeddedStateOptions>): Promise<void>
  /** A second one on the same data. */
  reopen(): Promise<EmbeddedState>
  campaign(nodeId: string, more?: Partial<CampaignClaim>, gone?: AbortSignal): Promise<Verdict>
}

export async function open(more: Partial<EmbeddedStateOptions> = {}): Promise<Scene> {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-service-'))
  const clock = fakeClock()
  const changes: string[] = []
  const start = async (again: Partial<EmbeddedStateOptions> = {}) => {
    const state = await EmbeddedState.open({
      directory,
      clock,
      policy: { minTtlMs: 1_000, maxTtlMs: 60_000 },
      implicitGroups: true,
      maxGroups: 100,
      maxMembersPerGroup: 3,
      memberTtlMs: 60_000,
      afterRestore: false,
      ...more,
      ...again,
    })
    state.follow({
      wantsRenewals: () => false,
      onChange: ({ type, lease, reason }: Change) =>
        void changes.push([type, lease.nodeId, lease.term, reason].filter(Boolean).join(' ')),
    })
    return state
  }
  let claims = 0
  const scene: Scene = {
    directory,
    clock,
    changes,
    state: await start(),
    reopen: () => start(),
    async restart(again) {
      await scene.state.close()
      scene.state = await start(again)
    },
    campaign: (nodeId, change = {}, gone = signal) =>
      scene.state.campaign(
        {
          groupId: 'jobs',
          nodeId,
          attempt: `attempt ${++claims}`,
          attemptIsOnce: false,
          ttlMs: 5_000,
          metadata: {},
          waitMs: 0,
          ...change,
        },
        gone,
      ),
  }
  onTestFinished(async () => {
    await scene.state.close()
    rmSync(directory, { recursive: true })
  })
  return scene
}

/** Lets time pass, and writes to the disk come to their end. */
export async function pass({ clock, state }: Scene, ms: number): Promise<void> {
  await clock.advance(ms)
  await state.check()
  await state.check()
}

export const held = (term: number, nodeId = 'a') => ({ groupId: 'jobs', nodeId, term })
