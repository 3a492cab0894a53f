import type { IdentityAnswer, MemberAnswer, ReplicasAnswer, WatchEvent } from '../model/answers.ts'
import { listed, looked, noElections, remembered, told, unfollowed, type Elections } from '../model/elections.ts'
import { Api, Refused } from './api.ts'
import { after, every, now } from './clock.ts'
import { follow } from './stream.ts'

/** How many elections are shown at once. */
const pageSize = 50
/** A search that finds little goes on for this many questions before it asks whether to. */
const mostQuestions = 40
const typingMs = 150
const healthEveryMs = 15_000
/** While all elections are on this page a new one would be, too; otherwise hardly ever. */
const listEveryMs = { empty: 2_000, short: 8_000, long: 20_000 }
const membersEveryMs = 5_000
/** A server that stands still keeps its connections open: within the sum of the two it is noticed. */
const pingEveryMs = 1_000
const pingWithinMs = 1_500
/** A page that nobody looks at gives its connection back: browsers have six for all tabs together. */
const hiddenMs = 30_000

/** Whether what is shown is how things are. `sinceMs` is on the monotonic clock. */
export type Link =
  | { readonly kind: 'opening' | 'live' | 'resting' }
  | { readonly kind: 'behind'; readonly sinceMs: number; readonly why: string }

export interface State {
  readonly link: Link
  readonly identity: IdentityAnswer | undefined
  /** A token is needed; and what became of the one before. */
  readonly signIn: { readonly message: string } | undefined
  readonly elections: Elections
  readonly search: string
  readonly isSearching: boolean
  /** Where the pages before this one began; the last is this one. */
  readonly pages: readonly (string | undefined)[]
  readonly next: string | undefined
  /** How many elections there are in all. Undefined: the server does not say. */
  readonly total: number | undefined
  readonly isListed: boolean
  /** The election whose page is shown; undefined: the list. */
  readonly shown: string | undefined
  readonly isMissing: boolean
  /** Null: this store does not say who takes part. */
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

/** Everything between the server and what is drawn. */
export class Controller {
  readonly #api = new Api()
  readonly #onChange: () => void
  #state = start
  /** Of the stream that is open, and of what it follows. */
  #following: { readonly ids: readonly string[]; readonly end: AbortController } | undefined
  #isOpen = false
  #isPinging = false
  /** When the server last said anything, on the monotonic clock. */
  #heardAtMs = now().monotonicMs
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

  /** Up to when it is known how things stand, on the server's wall clock: now, unless the page is behind. */
  get knownMs(): number {
    const { link, elections } = this.#state
    const { wallMs, monotonicMs } = now()
    return wallMs + elections.aheadMs - (link.kind === 'behind' ? monotonicMs - link.sinceMs : 0)
  }

  get state(): State {
    return this.#state
  }

  /** Begins, with a token if the address had one. */
  start(token: string | undefined): void {
    this.#api.token = token
    every(healthEveryMs, () => void (this.#isAwake() && this.#askHealth()))
    every(membersEveryMs, () => void (this.#isAwake() && this.#askMembers()))
    every(pingEveryMs, () => void (this.#isAwake() && this.#ping()))
    document.addEventListener('visibilitychange', () => this.#onVisibility())
    void this.#begin()
  }

  /** Takes a token, and tries it. */
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

  /** Ends the term that is shown. Rejects with what to tell. */
  async resign(id: string, node: string, term: number): Promise<void> {
    await this.#api.resign(id, node, term)
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
        this.#set({ elections: looked(this.#state.elections, group, now()), isMissing: false })
    } catch (error) {
      if (error instanceof Refused && error.status === 404) this.#set({ isMissing: true })
      else this.#failed(error)
    }
    await this.#askMembers()
  }

  /** Asks for the page of the list that is shown, and follows what is on it. */
  async #list(): Promise<void> {
    if (this.#state.shown !== undefined || !this.#state.identity) return
    this.#listing?.abort()
    this.#cancelList()
    const listing = (this.#listing = new AbortController())
    try {
      const { groups, next, total } = await this.#find(listing.signal)
      if (listing.signal.aborted) return
      this.#set({
        elections: listed(this.#state.elections, groups, now()),
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

  /** Pages are short where many elections do not fit what is searched: it goes on until one is full. */
  async #find(signal: AbortSignal) {
    const { search, pages } = this.#state
    const groups = []
    let next = pages.at(-1)
    let total: number | undefined
    for (let questions = 0; questions < mostQuestions; questions += 1) {
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
        this.#heardAtMs = now().monotonicMs
        this.#set({ link: { kind: 'live' } })
        void this.#remember(ids, end.signal)
        if (this.#state.health === 'unreachable') void this.#askHealth()
        const { shown, elections } = this.#state
        if (shown !== undefined && !elections.byId.has(shown)) void this.#load()
      },
      onEvent: (event: WatchEvent) => this.#onEvent(event),
      onBreak: (failure: Refused) => this.#onBreak(failure),
    }
    void follow(this.#api, ids, events, end.signal)
  }

  #unfollow(): void {
    this.#following?.end.abort()
    this.#following = undefined
    this.#isOpen = false
    this.#set({ elections: unfollowed(this.#state.elections) })
  }

  #onEvent(event: WatchEvent): void {
    this.#heard()
    this.#set({ elections: told(this.#state.elections, event, now()) })
    const isChange = event.type === 'LEADER_CHANGED' || event.type === 'LEADER_LOST'
    if (isChange && event.group_id === this.#state.shown) void this.#askMembers()
  }

  #onBreak(failure: Refused): void {
    this.#isOpen = false
    this.#set({ elections: unfollowed(this.#state.elections) })
    void this.#askHealth()
    this.#failed(failure)
  }

  /** Changes that were kept, also of the time while the stream was broken off. */
  async #remember(ids: readonly string[], signal: AbortSignal): Promise<void> {
    try {
      const { changes } = await this.#api.changes(ids, signal)
      if (!signal.aborted) this.#set({ elections: remembered(this.#state.elections, changes) })
    } catch {
      // The time-line begins with what is seen from now on.
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

  /** One at a time. A stream alone is silent for 15 s even while all is well. */
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

  /** The server lives. What it has to say comes by the stream, if that is open. */
  #heard(): void {
    this.#heardAtMs = now().monotonicMs
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
      const text = this.#api.token === undefined ? '' : `The token was refused: ${message}`
      this.#unfollow()
      this.#set({ signIn: { message: text }, identity: undefined })
      return
    }
    const { link } = this.#state
    const sinceMs = link.kind === 'behind' ? link.sinceMs : this.#heardAtMs
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
