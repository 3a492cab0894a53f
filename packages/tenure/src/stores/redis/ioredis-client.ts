/** An argument of a Redis command. */
export type RedisArgument = string | Buffer

/** What is needed of a client of `ioredis`: `Redis` and `Cluster` fit. */
export interface IoredisClient {
  eval(script: string, numberOfKeys: number, ...keysAndArguments: RedisArgument[]): Promise<unknown>
  /** Tells this client from the other one. */
  readonly defineCommand: unknown
}
