/** An argument of a Redis command. */
export type RedisArgument = string | Buffer

/** The part of an `ioredis` client that is needed. `Redis` and `Cluster` match it. */
export interface IoredisClient {
  eval(script: string, numberOfKeys: number, ...keysAndArguments: RedisArgument[]): Promise<unknown>
  /** Distinguishes this client from one of `redis`. */
  readonly defineCommand: unknown
}
