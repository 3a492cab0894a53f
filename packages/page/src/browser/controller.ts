import type { IdentityAnswer, MemberAnswer, ReplicasAnswer, PageEvent } from '../model/answers.ts'
import {
  withListing,
  withGroup,
  noElections,
  withRecordedChanges,
  withEvent,
  markInterrupted,
  type ElectionList,
} from '../model/elections.ts'
import { Api, Refused } from './api.ts'
import { after, every, now } from './clock.ts'
import { follow } from './stream.ts'

/** How many elections a page of the list shows. */
const pageSize = 50
/** How many requests a search makes before it stops and offers the next page. */
const maxSearchRequests = 40
const typingMs = 150
const healthEveryMs = 15_000
/**
 * How often to reload the list, depending on its length. A new election is visible on a list of one page, but rarely on
 * the current page of a longer list.
 */
const listEveryMs = { empty: 2_000, short: 8_000, long: 20_000 }
const membersEveryMs = 5_000
/** A stalled server keeps its connections open. A ping detects the stall within the sum of these two values. */
const pingEveryMs = 1_000
const pingWithinMs = 1_500
/**
 * A hidden page closes its connection after this time, because browsers allow six connections for all tabs together.
 */
const hiddenMs = 30_000

/** Whether the page shows the current state. `sinceMs` is on the monotonic clock. */
export type ConnectionState =
  | { readonly kind: 'opening' | 'live' | 'resting' }
  | { readonly kind: 'behind'; readonly sinceMs: number; readonly why: string }

export interface State {
  readonly link: ConnectionState
  readonly identity: IdentityAnswer | undefined
  /** Set if a token is needed. The message gives the reason why the previous one was refused. */
  readonly signIn: { readonly message: string } | undefined
  readonly elections: ElectionList
  readonly search: string
  readonly isSearching: boolean
  /** The start of each page so far. The last entry is the current page. */
  readonly pages: readonly (string | undefined)[]
  readonly next: string | undefined
  /** How many elections there are in total. Undefined if the server does not report it. */
  readonly total: number | undefined
  readonly isListed: boolean
  /** The election whose page is shown. Undefined for the list. */
  readonly shown: string | undefined
  readonly isMissing: boolean
  /**
   * The members of the shown election. Null if the store does not know them, and undefined if they are not loaded yet.
   */
  readonly members: readonly MemberAnswer[] | null | undefined
  readonly health: ReplicasAnswer | 'hidden' | 'unreachable' | undefined
}

const start: State = {
  link: { kind: 'opening' },
  identity: undefined,
  signIn: undefined,
  elections: noElections,
  search: '',
  isSearching: false,
  pages: [undefined],
  next: undefined,
  total: undefined,
  isListed: false,
  shown: undefined,
  isMissing: false,
  members: undefined,
  health: undefined,
}

/** Loads data from the server and holds the state that the page draws. */
export class Controller {
  readonly #api = new Api()
  readonly #onChange: () => void
  #state = start
  /** The open stream and the elections that it follows. */
  #following: { readonly ids: readonly string[]; readonly end: AbortController } | undefined
  #isOpen = false
  #isPinging = false
  /** When the server last sent anything, on the monotonic clock. */
  #lastMessageAtMs = now().monotonicMs
  #listing: AbortController | undefined
  #cancelTyping = () => {}
  #cancelRest = () => {}
  #cancelList = () => {}

  constructor(onChange: () => void) {
    this.#onChange = onChange
  }

  get hasToken(): boolean {
    return this.#api.token !== undefined
  }

  /**
   * The time up to which the state is known, on the server's wall clock. This is the current time, unless the page is
   * behind.
   */
  get knownMs(): number {
    const { link, elections } = this.#state
    const { wallMs, monotonicMs } = now()
    return wallMs + elections.aheadMs - (link.kind === 'behind' ? monotonicMs - link.sinceMs : 0)
  }

  get state(): State {
    return this.#state
  }

  /** Starts loading. `token` is undefined if the URL contained none. */
  start(token: string | undefined): void {
    this.#api.token = token
    every(healthEveryMs, () => void (this.#isAwake() && this.#askHealth()))
    every(membersEveryMs, () => void (this.#isAwake() && this.#askMembers()))
    every(pingEveryMs, () => void (this.#isAwake() && this.#ping()))
    document.addEventListener('visibilitychange', () => this.#onVisibility())
    void this.#begin()
  }

  /** Sets the token and tries it. */
  signIn(token: string): void {
    this.#api.token = token === '' ? undefined : token
    void this.#begin()
  }

  signOut(): void {
    this.#api.token = undefined
    this.#unfollow()
    this.#set({ ...start, shown: this.#state.shown, signIn: { message: '' } })
  }

  /** Shows one election, or the list. */
  show(id: string | undefined): void {
    if (id === this.#state.shown) return
    this.#set({ shown: id, isMissing: false, members: undefined })
    if (this.#state.identity) void this.#load()
  }

  search(text: string): void {
    this.#set({ search: text, isSearching: true })
    this.#cancelTyping()
    this.#cancelTyping = after(typingMs, () => {
      this.#set({ pages: [undefined] })
      void this.#list()
    })
  }

  nextPage(): void {
    const { pages, next } = this.#state
    if (next === undefined) return
    this.#set({ pages: [...pages, next] })
    void this.#list()
  }

  previousPage(): void {
    const { pages } = this.#state
    if (pages.length < 2) return
    this.#set({ pages: pages.slice(0, -1) })
    void this.#list()
  }

  /** Ends the term that is shown. Rejects with a message that can be shown to the user. */
  async resign(id: string, node: string, term: number, successor?: string): Promise<void> {
    await this.#api.resign(id, node, term, successor)
  }

  async remove(id: string): Promise<void> {
    await this.#api.remove(id)
    this.#set({ isMissing: true })
  }

  async #begin(): Promise<void> {
    try {
      const identity = await this.#api.identity()
      this.#set({ identity, signIn: undefined })
    } catch (error) {
      this.#failed(error)
      if (!this.#state.signIn) after(2_000, () => void this.#begin())
      return
    }
    void this.#askHealth()
    await this.#load()
  }

  async #load(): Promise<void> {
    const { shown } = this.#state
    if (shown === undefined) return this.#list()
    this.#cancelList()
    this.#listing?.abort()
    this.#follow([shown])
    try {
      const group = await this.#api.group(shown)
      if (this.#state.shown === shown)
        this.#set({ elections: withGroup(this.#state.elections, group, now()), isMissing: false })
    } catch (error) {
      if (error instanceof Refused && error.status === 404) this.#set({ isMissing: true })
      else this.#failed(error)
    }
    await this.#askMembers()
  }

  /** Loads the current page of the list, and follows the elections on it. */
  async #list(): Promise<void> {
    if (this.#state.shown !== undefined || !this.#state.identity) return
    this.#listing?.abort()
    this.#cancelList()
    const listing = (this.#listing = new AbortController())
    try {
      const { groups, next, total } = await this.#find(listing.signal)
      if (listing.signal.aborted) return
      this.#set({
        elections: withListing(this.#state.elections, groups, now()),
        next,
        total,
        isListed: true,
        isSearching: false,
        ...(this.#isOpen && { link: { kind: 'live' } }),
      })
      this.#follow(groups.map(({ group_id }) => group_id))
    } catch (error) {
      if (listing.signal.aborted) return
      this.#set({ isSearching: false })
      this.#failed(error)
    }
    const { next, elections } = this.#state
    const size = elections.byId.size === 0 ? 'empty' : next === undefined ? 'short' : 'long'
    this.#cancelList = after(listEveryMs[size], () => {
      if (this.#isAwake()) void this.#list()
    })
  }

  /** Collects a full page. The server returns short pages when few elections match the search. */
  async #find(signal: AbortSignal) {
    const { search, pages } = this.#state
    const groups = []
    let next = pages.at(-1)
    let total: number | undefined
    for (let requests = 0; requests < maxSearchRequests; requests += 1) {
      const page = await this.#api.groups(
        { search: search.trim(), after: next, limit: pageSize - groups.length },
        signal,
      )
      groups.push(...page.groups)
      total = page.total
      next = page.next ?? undefined
      if (next === undefined || groups.length >= pageSize) break
    }
    return { groups, next, total }
  }

  #follow(ids: readonly string[]): void {
    const known = this.#following
    if (known && known.ids.join() === ids.join() && this.#state.link.kind !== 'resting') return
    this.#unfollow()
    if (ids.length === 0) return this.#set({ link: { kind: 'live' } })
    const end = new AbortController()
    this.#following = { ids, end }
    const events = {
      onOpen: () => {
        this.#isOpen = true
        this.#lastMessageAtMs = now().monotonicMs
        this.#set({ link: { kind: 'live' } })
        void this.#remember(ids, end.signal)
        if (this.#state.health === 'unreachable') void this.#askHealth()
        const { shown, elections } = this.#state
        if (shown !== undefined && !elections.byId.has(shown)) void this.#load()
      },
      onEvent: (event: PageEvent) => this.#onEvent(event),
      onBreak: (failure: Refused) => this.#onBreak(failure),
    }
    void follow(this.#api, ids, events, end.signal)
  }

  #unfollow(): void {
    this.#following?.end.abort()
    this.#following = undefined
    this.#isOpen = false
    this.#set({ elections: markInterrupted(this.#state.elections) })
  }

  #onEvent(event: PageEvent): void {
    this.#heard()
    this.#set({ elections: withEvent(this.#state.elections, event, now()) })
    const isChange = event.type === 'LEADER_CHANGED' || event.type === 'LEADER_LOST'
    if (isChange && event.group_id === this.#state.shown) void this.#askMembers()
  }

  #onBreak(failure: Refused): void {
    this.#isOpen = false
    this.#set({ elections: markInterrupted(this.#state.elections) })
    void this.#askHealth()
    this.#failed(failure)
  }

  /** Loads recorded changes, including those that the stream missed while it was interrupted. */
  async #remember(ids: readonly string[], signal: AbortSignal): Promise<void> {
    try {
      const { changes } = await this.#api.changes(ids, signal)
      if (!signal.aborted) this.#set({ elections: withRecordedChanges(this.#state.elections, changes) })
    } catch {
      // The timeline then starts with the changes from now on.
    }
  }

  async #askHealth(): Promise<void> {
    if (!this.#state.identity) return
    try {
      this.#set({ health: await this.#api.replicas() })
    } catch (error) {
      const isHidden = error instanceof Refused && error.status === 403
      this.#set({ health: isHidden ? 'hidden' : 'unreachable' })
      if (error instanceof Refused && error.status === 401) this.#failed(error)
    }
  }

  /** Pings the server, one request at a time. A stream alone may be silent for 15 s even when all is well. */
  async #ping(): Promise<void> {
    if (this.#isPinging || this.#state.link.kind === 'resting') return
    this.#isPinging = true
    try {
      await this.#api.ping(pingWithinMs)
      this.#heard()
    } catch (error) {
      this.#failed(error)
    } finally {
      this.#isPinging = false
    }
  }

  /**
   * Records that the server is alive. The page is up to date only while the stream is open, because changes arrive over
   * it.
   */
  #heard(): void {
    this.#lastMessageAtMs = now().monotonicMs
    if (this.#isOpen && this.#state.link.kind === 'behind') this.#set({ link: { kind: 'live' } })
  }

  async #askMembers(): Promise<void> {
    const { shown, isMissing, identity } = this.#state
    if (shown === undefined || isMissing || !identity) return
    try {
      const { members } = await this.#api.members(shown)
      if (this.#state.shown === shown) this.#set({ members })
    } catch (error) {
      if (error instanceof Refused && error.status === 404) this.#set({ isMissing: true })
    }
  }

  #failed(error: unknown): void {
    const { status, message } = error instanceof Refused ? error : new Refused(0, String(error))
    if (status === 401) {
      const text = this.#api.token === undefined ? '' : `The token was rejected: ${message}`
      this.#unfollow()
      this.#set({ signIn: { message: text }, identity: undefined })
      return
    }
    const { link } = this.#state
    const sinceMs = link.kind === 'behind' ? link.sinceMs : this.#lastMessageAtMs
    this.#set({ link: { kind: 'behind', sinceMs, why: message } })
  }

  #isAwake(): boolean {
    return !document.hidden && this.#state.identity !== undefined
  }

  #onVisibility(): void {
    this.#cancelRest()
    if (document.hidden) {
      this.#cancelRest = after(hiddenMs, () => {
        this.#unfollow()
        this.#set({ link: { kind: 'resting' } })
      })
    } else if (this.#state.identity) {
      void this.#load()
      void this.#askHealth()
    }
  }

  #set(news: Partial<State>): void {
    this.#state = { ...this.#state, ...news }
    this.#onChange()
  }
}
