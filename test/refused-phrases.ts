/**
 * Phrases that a reader has to read twice, words of a private dialect, and British spellings. Each comes with the advice
 * to print. The list is separate from the test of the pages, so that comments, test names and messages can be held
 * against it too.
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
  [/\bpass(?:es|ed|ing)? (?:it |them |calls? |requests? )?on\b(?! (?:a|the|each|every)\b)/i, 'forwards, relays'],
  [/\bunder way\b/i, 'in flight, in progress'],
  [/\bwhat (?:became|becomes|has become) of\b/i, 'its outcome, its status'],
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
  [/\bdata (?:have|were|are)\b/i, 'data has, data was, data is'],
  [
    /\b\w*(?:haviour|onour|olour|ecognis|rganis|ummaris|ynchronis|uthoris)\w*|\bcancelled\b(?! \|)|\bmisspelt\b|\blicence\b|\bcatalogue\b/i,
    'the American spelling',
  ],
]
