// Texts that the editor has told the page. They come back as its text, maybe after newer keys: such a text is old
// and not an order to replace what was typed since.

export class Told {
  #texts: string[] = [];

  tell(text: string): void {
    this.#texts.push(text);
  }

  /** Whether a text of the page is one that was told; it and older ones are forgotten then. */
  takes(text: string): boolean {
    const at = this.#texts.lastIndexOf(text);
    this.#texts = this.#texts.slice(at + 1);
    return at >= 0;
  }

  /** The page has given a text of its own. */
  forget(): void {
    this.#texts = [];
  }
}
