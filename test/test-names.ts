/** Words that continue a sentence that the name of the suite began. A name that starts with one has no subject. */
const continuation = /^(?:that|and|or|but|which|who|whose|when|if|where|while|because)\b/

/** Endings that refer to the previous test. */
const addition = /\bnot\b.* either$/

/** Claims that do not say what a failing run would disprove. */
const emptyClaim = /^it works\b|\bworks? (?:correctly|properly|fine)\b|\bas (?:it|they) should\b|\bas expected\b/

/** Articles, prepositions, conjunctions and the like. A word that ends in "s" right after one of these is a noun. */
const functionWords = new Set(
  `a an the this that these those its their another other any all both each every few some several many more most no not
  only two three four five of for to from in into on at by with without within between among across over under above below
  through during until as per via than like against behind beside besides beyond after before about around and or but nor
  if when while where which who whose because so`.split(/\s+/),
)

/** Verbs in the form that follows a plural, and auxiliaries. */
const verbs = new Set(
  `is are was were has have does do did can cannot may might must will would should accept acquire add agree answer appear
  apply arrive ask become begin believe belong break bring build call campaign carry cause change check claim close compile
  complete compute connect contain continue cost count create cut decide decode delay delete depend describe detect differ
  disappear drop elect emit encode end escape exceed exist exit expire explain fail fall fill find finish fire follow forget
  forward get give go grant hand hang happen hide hold ignore import include install keep know last lead learn leave let
  lie limit link list load lock log lose make mark match meet miss move name need notice observe obey occur open order
  overlap overwrite parse pass pause permit point poll prevent print produce prove provide publish reach react read receive
  recognize record recover refer refuse reject release remain remove renew repeat replace report request require resolve
  respond restart restore resume retry return reuse rise run say see select send serve set share show skip slow sort start
  stay step stop store suffice support survive switch take tell throw tolerate touch treat try turn understand update use
  verify wait want warn watch win work wrap write yield`.split(/\s+/),
)

/** A value that the runner inserts into a name, which may contain the verb. */
const inserted = /%[a-z]|\$\w|…/

/**
 * Returns why the name of a test is not a statement, or undefined if it is. A verb is recognized by its form: a listed
 * verb, or a word that ends in "s" or "ed" after a noun, or a word right after a plural. Statements are not refused.
 * Some noun phrases are accepted, because a plural noun looks like a verb.
 */
export function statementMistake(name: string): string | undefined {
  const start = continuation.exec(name)
  if (start) return `it begins with "${start[0]}", which continues another sentence`
  if (addition.test(name)) return 'it ends with "either", which refers to another test'
  const claim = emptyClaim.exec(name)
  if (claim) return `"${claim[0]}" does not say what happens`
  return inserted.test(name) || hasVerb(name) ? undefined : 'it has no verb'
}

function hasVerb(name: string): boolean {
  const words = name.split(/[\s,;:?!"“”()]+/).filter(Boolean)
  return words.some((word, index) => {
    const before = words[index - 1]
    if (before === undefined || isFunctionWord(word)) return false
    if (verbs.has(word) && !/^(?:an?|the|its|no)$/i.test(before)) return true
    return !isFunctionWord(before) && (endsInS(word) || endsInS(before) || /ed$|^->$/.test(word))
  })
}

const isFunctionWord = (word: string) => functionWords.has(word.toLowerCase())
const endsInS = (word: string) => /[^s'’]s$/.test(word)
