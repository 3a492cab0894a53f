/**
 * Phrases that a reader has to read twice, words of a private dialect, and British spellings. Each comes with the advice
 * to print. Pages, comments, test names, and the texts in the sources are checked against this list.
 */
export const refusedPhrases: readonly (readonly [phrase: RegExp, advice: string])[] = [
  [/\b(?:is|are|was|were|be|been) told\b(?! (?:apart|to)\b)|\btold of\b/i, 'is reported, notified, logged'],
  [/\btells? (?:of|about)\b/i, 'reports, says'],
  [/\b(?:hears?|heard) (?:of|from)\b/i, 'learns of, sees'],
  [/\b(?:unless|until) told\b/i, 'by default, unless set'],
  [/\bstands? in (?:it|the|a|its|no|each|every|one)\b|\blies? in (?:the|a|its)\b/i, 'is in'],
  [/\bst(?:ands?|ood) still\b/i, 'stalls, hangs, is paused, stops'],
  [/(?<!there )\b(?:is|are|was) no (?!longer\b|more\b|less\b)[a-z]+/i, 'is not a'],
  [/\banew\b/i, 'again'],
  [/\bfor ever\b/i, 'forever, permanently'],
  [/\bfor good\b/i, 'permanently, forever'],
  [/\balso (?:when|if|where|while|without|after)\b/i, 'even when'],
  [/\bfor so long\b|\bso often\b/i, 'for that long'],
  [/\b(?:can(?:not)?|may) be had\b/i, 'is available'],
  [/\bwhoever\b/i, 'the caller, the leader, a client that'],
  [/(?:^|[.:;] |\| )Who (?![^.|]*\?)(?=[^.|]*[.|])/m, 'the caller, the leader, a client that'],
  [/\b(?:runs?|ran|running) out\b(?! of\b)/i, 'expires, has expired'],
  [/\bg(?:ive|ives|iven|iving|ave) (?:\w+ ){0,2}back\b/i, 'releases, returns'],
  [
    /\bpass(?:es|ed|ing)? (?:it |them |calls? |requests? )?on\b(?! (?:a|the|each|every|one|both)\b)/i,
    'forwards, relays',
  ],
  [/\bunder way\b/i, 'in flight, in progress'],
  [/\bwhat (?:became|becomes|has become|came|comes) of\b/i, 'its outcome, its status'],
  [/\bof (?:its|their|your|our|one's) own(?= ?[.,;:)|]|$)/im, 'its own, separate, dedicated'],
  [/\b(?:and|to|by) chance\b/i, 'randomness, jitter, at random'],
  [/\bmoment in which\b/i, 'moment at which, when'],
  [/\b(?:waits?|waiting|waited|place) in line\b/i, 'waits in the queue'],
  [/\bjudged\b|\bjudges? (?:that|expiry|claims?|conditions?)\b/i, 'decides, checks'],
  [/\btaken for (?:done|granted|dead|one)\b/i, 'counts as'],
  [/\bfall(?:s|en|ing)? silent\b|\bfell silent\b/i, 'receives nothing, sends nothing'],
  [/\bsigns? of life\b/i, 'liveness socket, heartbeat'],
  [/\bplanted mistakes?\b/i, 'mutant'],
  [/\b(?:reign|errand|lost tail|onlooker|sighting)s?\b/i, 'the noun of docs/reference/glossary.md'],
  [/\b(?:the|a|its|new|no) carry\b/i, 'checkpoint'],
  [
    /\bt(?:akes?|aken|ook|aking) (?:[\w']+ ){0,4}for (?:free|dead|gone|lost|missing|(?:its|their|our) own)\b/i,
    'treats as, mistakes for',
  ],
  [/\b(?:an|the) own\b/i, "its own, this elector's"],
  [/\bLike (?:`[^`]+`|\{@link \w+\}), (?:for|on|with)\b/, 'what it returns or does'],
  [/\btime left of\b/i, 'time left on'],
  [/\bwhat (?:it|they) (?:throws?|rejects?)\b/i, 'errors that it throws'],
  [/\b(?:is|are|was|were|been) given up\b/i, 'is abandoned, is canceled'],
  [/\b(?:is|are|was|were|be|been) waited for\b/i, 'the candidate waits for, is awaited'],
  [/\bfirst sight\b/i, 'when it is first seen'],
  [/\b(?:a|one|first|last|next|another) look\b/i, 'a read, the last check'],
  [/\bwhat (?:[\w`$]+ ){0,2}(?:writes?|written|wrote) to\b/i, 'the resource that it writes to, every write'],
  [/\b(?:is|are|was) drawn (?:for|at|by)\b/i, 'is random, is generated'],
  [/\bput(?:s|ting)? back\b/i, 'restores, returns'],
  [/\bends? (?:[\w-]+ ){0,2}with (?:\d+\b|%d)/i, 'exits with'],
  [/(?<!-)\bgo(?:es)? on\b(?! to\b)/i, 'continues, keeps running'],
  [/\bdata (?:have|were|are)\b/i, 'data has, data was, data is'],
  [/\banswers? nothing\b/i, 'does not answer, refuses every call'],
  [/\bSince when\b/, 'when it began, how long'],
  [
    /\bha(?:s|ve) (?:(?:at most|more than|about|up to|only) )?[\d,.…]+ ?(?:[KMG]i?B|bytes)\b(?! (?:of|left|free)\b)/i,
    'is ... bytes long',
  ],
  [/\bany more(?= ?[.,;:)|]|$)/im, 'anymore'],
  [/, too(?= ?[.;:)|]|$)/im, 'also, as well'],
  [/\bfor people\b|\bpeople only\b/i, 'for display, as readable text'],
  [
    /\b(?:leases?|beliefs?|leadership|terms?|holds?|time|durations?|ttl|cooldown|elections?) (?:is|are|was|were) over\b/i,
    'has ended, has expired, has passed',
  ],
  [/\bon (?:its|their) way\b/i, 'in flight'],
  [/\bnow and then\b/i, 'from time to time, occasionally'],
  [/\bknow(?:s|n)? of\b/i, 'knows, knows about'],
  [/\boutside of\b/i, 'outside'],
  [/\bsuch as (?:after|at|on|when|while)\b/i, 'for example after'],
  [/\bwhat is left of\b/i, 'the rest of, the time left on'],
  [/\b(?:that|which) takes? long\b(?!er)/i, 'takes a long time'],
  [/\banything else than\b/i, 'anything other than'],
  [/\bnothing of (?:it|that|this|them)\b/i, 'nothing, none of it'],
  [/\b(?:that|this) very moment\b/i, 'that moment'],
  [/\ba data loss\b/i, 'data loss'],
  [/\b(?:another|other) (?!than\b)\w+ than\b/i, 'a different ... than, a ... other than'],
  [/\bthe \w+ of --[a-z]/i, 'the --flag command, the --flag file'],
  [/\bg(?:ive|ives|ave) up an?\b/i, 'abandons, cancels'],
  [/\banswers? (?:who|whether)\b/i, 'reports who, reports whether'],
  [/\bhow deep (?:the|a|its)\b/i, 'how deeply'],
  [/\bmust \w+ no \w+/i, 'must not ... any'],
  [/\bmeanwhile(?= ?[.;:)|]|$)/im, 'in the meantime, during that time'],
  [/\bnevertheless(?= ?[.,;:)|]|$)/im, 'anyway'],
  [/\buntil when\b/i, 'when it ends'],
  [/\broll-outs?\b/i, 'rollout'],
  [/\b(?:a|the|each|every|one|no|clean) hand-over\b|\bhand-overs\b/i, 'handover'],
  [
    /\b\w*(?:haviour|onour|olour|ecognis|rganis|ummaris|ynchronis|uthoris)\w*|(?<!`)\bcancelled\b(?! \|)|\bmisspelt\b|\blicence\b|\bcatalogue\b/i,
    'the American spelling',
  ],
]

/** In code, rules judge claims, and a store or a candidate judges expiry: that is the name of the functions. */
const refusedInCode = refusedPhrases.filter(([phrase]) => !phrase.test('judged'))

/** Returns the refused phrases in a comment or a text of the code, each with its advice. */
export function refusedInText(text: string): string[] {
  return refusedInCode.flatMap(([phrase, advice]) => {
    const hit = phrase.exec(text)
    return hit ? [`"${hit[0]}", rather: ${advice}`] : []
  })
}
