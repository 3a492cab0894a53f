import type { Timer } from 'tenure'
import type {
  CampaignClaim,
  Definition,
  ElectionState,
  Follower,
  GroupView,
  HeldClaim,
  MaybePromise,
  MemberView,
  Metadata,
  Page,
  PageOptions,
  RenewClaim,
  Verdict,
} from '../state.ts'
import { Core, patiently, type EmbeddedStateOptions } from './core.ts'
import { Definitions } from './definitions.ts'
import { Disk } from './disk.ts'
import { Elections } from './elections.ts'
import { Endings } from './endings.ts'
import { load } from './load.ts'
import { Members } from './members.ts'

export type { EmbeddedStateOptions } from './core.ts'

const pruneMs = 60_000

/** Groups in memory, with a disk below that knows all that must survive a crash. */
export class EmbeddedState implements ElectionState {
  readonly clusterId: string
  readonly #core: Core
  readonly #endings: Endings
  readonly #elections: Elections
  readonly #definitions: Definitions
  readonly #members: Members
  #pruning: Timer

  private constructor(disk: Disk, options: EmbeddedStateOptions) {
    this.clusterId = disk.clusterId
    this.#core = new Core(disk, options)
    this.#members = new Members(options)
    this.#endings = new Endings(this.#core)
    this.#elections = new Elections(this.#core, this.#endings, this.#members)
    this.#definitions = new Definitions(this.#core, this.#endings, this.#members)
    load(this.#core, this.#endings)
    this.#pruning = this.#pruneLater()
  }

  static async open(options: EmbeddedStateOptions): Promise<EmbeddedState> {
    const { directory, clock, afterRestore } = options
    const disk = await Disk.open({ directory, newId: () => clock.randomId(), restored: afterRestore })
    try {
      if (afterRestore) await disk.noteRestore()
      return new EmbeddedState(disk, options)
    } catch (error) {
      await disk.close()
      throw error
    }
  }

  #pruneLater(): Timer {
    const prune = () => {
      this.#members.prune(this.#core.clock.wallMs())
      this.#pruning = this.#pruneLater()
    }
    return this.#core.clock.setTimer(pruneMs, prune, { background: true })
  }

  campaign(claim: CampaignClaim, signal: AbortSignal): Promise<Verdict> {
    return this.#elections.campaign(claim, signal)
  }

  renew(claim: RenewClaim): MaybePromise<Verdict> {
    return this.#elections.renew(claim)
  }

  resign(claim: HeldClaim): Promise<Verdict> {
    return this.#elections.resign(claim)
  }

  leader(groupId: string): MaybePromise<Verdict> {
    return this.#elections.leader(groupId)
  }

  define(
    groupId: string,
    definition: Definition,
    options: { replace: boolean },
  ): Promise<'created' | 'same' | 'replaced'> {
    return this.#definitions.define(groupId, definition, options)
  }

  group(groupId: string): Promise<GroupView> {
    return this.#definitions.group(groupId)
  }

  groups(options: PageOptions): Promise<Page> {
    return this.#definitions.groups(options)
  }

  remove(groupId: string, options: { force: boolean }): Promise<void> {
    return this.#definitions.remove(groupId, options)
  }

  heartbeat(groupId: string, nodeId: string, metadata: Metadata): void {
    this.#definitions.heartbeat(groupId, nodeId, metadata)
  }

  members(groupId: string): Promise<MemberView[]> {
    return this.#definitions.members(groupId)
  }

  follow(follower: Follower): () => void {
    this.#core.followers.add(follower)
    return () => void this.#core.followers.delete(follower)
  }

  get groupCount(): number {
    return this.#core.groups.size
  }

  async check(): Promise<void> {
    await this.#core.check()
  }

  async close(): Promise<void> {
    if (this.#core.closed) return
    this.#core.closed = true
    this.#endings.close()
    this.#pruning.cancel()
    this.#core.clock.stop()
    await patiently(this.#core.disk.close())
  }
}
