import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fakeClock, type FakeClock } from '@tenure/testing'
import { onTestFinished } from 'vitest'
import { openEmbedded, type EmbeddedOptions } from '../../src/embedded.ts'
import { restoreData } from '../../src/storage/backup.ts'
import type { LocalGroups } from '../../src/groups/local-groups.ts'
import type { CampaignClaim, GroupChange, GroupState } from '../../src/groups/port.ts'

const { signal } = new AbortController()

export interface Scene {
  readonly directory: string
  readonly clock: FakeClock
  readonly changes: string[]
  state: LocalGroups
  /** Restarts as after a crash: everything that is not on disk is lost. */
  restart(more?: Partial<EmbeddedOptions>): Promise<void>
  /** Restarts with data that was restored from a backup. */
  restore(): Promise<void>
  /** Opens the same data a second time. */
  reopen(): Promise<LocalGroups>
  campaign(nodeId: string, more?: Partial<CampaignClaim>, gone?: AbortSignal): Promise<GroupState>
}

/**
 * Advances the virtual time in steps of a second. The directory must be proven once a second, on a real disk that does
 * not use this clock.
 */
export function inSteps(time: FakeClock, state: () => LocalGroups): FakeClock['advance'] {
  return async (ms) => {
    let leftMs = ms
    for (; leftMs > 1_000; leftMs -= 1_000) {
      await time.advance(1_000)
      await state()
        .check()
        .catch(() => {})
    }
    await time.advance(leftMs)
  }
}

export async function open(more: Partial<EmbeddedOptions> = {}): Promise<Scene> {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-service-'))
  const time = fakeClock()
  const advance = inSteps(time, () => scene.state)
  const clock: FakeClock = Object.assign(Object.create(time) as FakeClock, { advance })
  const changes: string[] = []
  const start = async (again: Partial<EmbeddedOptions> = {}) => {
    const { groups: state } = await openEmbedded({
      directory,
      clock,
      policy: { minTtlMs: 1_000, maxTtlMs: 60_000 },
      implicitGroups: true,
      maxGroups: 100,
      maxMembersPerGroup: 3,
      memberTtlMs: 60_000,
      ...more,
      ...again,
    })
    state.serve()
    state.listen({
      wantsRenewals: () => false,
      onChange: ({ type, lease, reason }: GroupChange) =>
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
    async restore() {
      await scene.state.close()
      await restoreData({ data: directory })
      scene.state = await start()
    },
    campaign: (nodeId, change = {}, gone = signal) =>
      scene.state.campaign(
        {
          groupId: 'jobs',
          nodeId,
          attempt: `attempt ${++claims}`,
          attemptIsOnce: false,
          ttlMs: 5_000,
          metadata: '{}',
          waitMs: 0,
          ...change,
        },
        gone,
      ),
  }
  onTestFinished(async () => {
    await scene.state.close()
    rmSync(directory, { recursive: true, force: true })
  })
  return scene
}

/** Advances the virtual time and waits until pending writes to the disk are done. */
export async function pass({ clock, state }: Scene, ms: number): Promise<void> {
  await clock.advance(ms)
  await state.check()
  await state.check()
}

export const held = (term: number, nodeId = 'a') => ({ groupId: 'jobs', nodeId, term })
