/**
 * The hash that maps a key to a shard. It is part of the protocol: every process of a group, in every language, must map
 * a key to the same shard. Its name is therefore in the settings of the group.
 */

/** The name of the hash in the settings of a group: FNV-1a of 32 bits, then the finalizer of MurmurHash3. */
export const shardHashName = 'fnv1a32-fmix'

/**
 * Returns the shard of a key: the hash of its UTF-8 bytes, modulo the number of shards. FNV-1a alone spreads the last
 * bytes of a key badly over a power of two, so its result is mixed once more.
 */
export function shardOf(key: string, shards: number): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(key, 'utf8')) hash = Math.imul(hash ^ byte, 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) % shards
}
