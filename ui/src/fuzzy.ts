// Search as people type: every word of the needle must occur, as it stands or letter by letter.

function subsequence(word: string, hay: string): boolean {
    let at = 0;
    for (const letter of word) {
        at = hay.indexOf(letter, at) + 1;
        if (at === 0) return false;
    }
    return true;
}

export function matcher(needle: string): (hay: string) => boolean {
    const words = needle.toLowerCase().split(/\s+/).filter(Boolean);
    return (hay) => {
        const low = hay.toLowerCase();
        return words.every((word) => low.includes(word) || (word.length > 2 && subsequence(word, low)));
    };
}
